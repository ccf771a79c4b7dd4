// The mirror in numbers, one table: what a device's access to process memory costs beside memcpy, what bringing a page
// home on a touch costs beside a plain fault and beside UFFDIO_COPY, and how fast ranges migrate, each with and without
// huge pages. Medians of rounds, in turns.
//
//   build/release/bench/bench_mirror [--mib 128] [--rounds 9]
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "drivers/linux/userfault/userfault.h"
#include "ebb/mirror.h"

namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHuge = std::size_t{2} << 20;
constexpr std::size_t kTouches = 500;  // in a round; less than a huge page, which would come home whole

// Aligned memory, huge pages or not, written once.
class Memory {
 public:
  Memory(std::size_t bytes, bool huge, bool touch = true) : bytes_(bytes) {
    wide_ = ::mmap(nullptr, bytes + kHuge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (wide_ == MAP_FAILED) std::exit((std::perror("mmap"), 1));
    const auto skew = reinterpret_cast<std::uintptr_t>(wide_) % kHuge;
    data_ = static_cast<char*>(wide_) + (kHuge - skew) % kHuge;
    ::madvise(data_, bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    if (touch) std::memset(data_, 1, bytes);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { ::munmap(wide_, bytes_ + kHuge); }
  char* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_;
  void* wide_;
  char* data_;
};

class Table {
 public:
  void add(const std::string& row, double value) {
    if (!values_.contains(row)) rows_.push_back(row);
    values_[row].push_back(value);
  }
  void print() {
    for (const std::string& row : rows_) {
      std::vector<double>& of = values_[row];
      std::sort(of.begin(), of.end());
      std::printf("| %s | %.2f | %.2f | %.2f |\n", row.c_str(), of[of.size() / 2], of.front(), of.back());
    }
  }

 private:
  std::vector<std::string> rows_;
  std::map<std::string, std::vector<double>> values_;
};

double seconds(const std::function<void()>& what) {
  const std::uint64_t begin = ebb::monotonic_ns();
  what();
  return static_cast<double>(ebb::monotonic_ns() - begin) * 1e-9;
}

void require(const ebb::MirrorResult& result, const char* what) {
  if (result.ok()) return;
  std::fprintf(stderr, "bench_mirror: %s: %s\n", what, ebb::name(result.error));
  std::exit(1);
}

void bandwidths(ebb::Mirror& mirror, std::size_t bytes, Table& table) {
  for (const bool huge : {true, false}) {
    const std::string pages = huge ? ", huge pages" : ", 4 KiB pages";
    const Memory memory(bytes, huge), own(bytes, huge);
    const auto buffer = std::as_writable_bytes(std::span(own.data(), bytes));
    const double gib = static_cast<double>(bytes) / static_cast<double>(std::size_t{1} << 30);
    const auto rate = [&](const std::string& row, const std::function<void()>& what) {
      table.add(row + pages + " (GiB/s)", gib / seconds(what));
    };
    rate("memcpy", [&] { std::memcpy(buffer.data(), memory.data(), bytes); });
    rate("device reads memory of the host", [&] { require(mirror.read(0, memory.data(), buffer), "read"); });
    rate("device writes memory of the host", [&] { require(mirror.write(0, memory.data(), buffer), "write"); });
    rate("migrate to the device", [&] { require(mirror.migrate_to_device(0, memory.data(), bytes), "migrate"); });
    rate("device reads its own memory", [&] { require(mirror.read(0, memory.data(), buffer), "read"); });
    rate("device writes its own memory", [&] { require(mirror.write(0, memory.data(), buffer), "write"); });
    rate("migrate to the host", [&] { require(mirror.migrate_to_host(memory.data(), bytes), "migrate"); });
  }
}

// Microseconds a touch of one page, of many.
double touch_us(const Memory& memory) {
  const double all = seconds([&] {
    for (std::size_t i = 0; i < kTouches; ++i) {
      static_cast<volatile char*>(memory.data())[i * kPage] = 1;
    }
  });
  return all * 1e6 / static_cast<double>(kTouches);
}

// The least that a handler in this process can do: one copy into the page that was touched.
double copy_fault_us() {
  Memory memory(kTouches * kPage, false, false);
  ebb::Userfault userfault;
  if (ebb::Userfault::open({}, userfault) != 0 || userfault.watch(memory.data(), memory.bytes()) != 0) {
    return 0;
  }
  std::thread handler([&] {
    const std::vector<char> content(kPage, 1);
    for (std::size_t served = 0; served < kTouches;) {
      pollfd polled{userfault.fd(), POLLIN, 0};
      ::poll(&polled, 1, 1000);
      uffd_msg message;
      if (!userfault.read(message)) continue;
      auto* const page = reinterpret_cast<void*>(message.arg.pagefault.address & ~(kPage - 1));
      if (userfault.copy(page, content.data(), kPage).error == 0) ++served;
    }
  });
  const double each = touch_us(memory);
  handler.join();
  return each;
}

void faults(ebb::Mirror& mirror, Table& table) {
  {
    Memory fresh(kTouches * kPage, false, false);
    table.add("touch of new memory (us)", touch_us(fresh));
  }
  table.add("touch served by UFFDIO_COPY (us)", copy_fault_us());
  Memory memory(kTouches * kPage, false);
  require(mirror.migrate_to_device(0, memory.data(), memory.bytes()), "migrate");
  table.add("touch of a page that the device has (us)", touch_us(memory));
  Memory huge(kHuge, true);
  require(mirror.migrate_to_device(0, huge.data(), kHuge), "migrate");
  table.add("touch of a huge page that the device has (us)",
            seconds([&] { static_cast<volatile char*>(huge.data())[0] = 1; }) * 1e6);
}

}  // namespace

int main(int count, char** arguments) {
  std::size_t mib = 128, rounds = 9;
  for (int i = 1; i + 1 < count; i += 2) {
    if (std::strcmp(arguments[i], "--mib") == 0) mib = std::strtoull(arguments[i + 1], nullptr, 10);
    if (std::strcmp(arguments[i], "--rounds") == 0) rounds = std::strtoull(arguments[i + 1], nullptr, 10);
  }
  if (mib < 2 || mib > 16384 || mib % 2 != 0 || rounds == 0) {
    std::fprintf(stderr, "bench_mirror: --mib is an even number from 2 to 16384, --rounds at least 1\n");
    return 2;
  }
  try {
    const auto mirror = ebb::Mirror::open({.device_bytes = (mib + 8) << 20});
    Table table;
    for (std::size_t round = 0; round < rounds; ++round) {
      bandwidths(*mirror, mib << 20, table);
      faults(*mirror, table);
    }
    std::printf("%zu MiB, %zu rounds; %s\n\n| | median | least | most |\n|---|---|---|---|\n", mib, rounds,
                mirror->description().c_str());
    table.print();
  } catch (const ebb::Error& error) {
    std::fprintf(stderr, "bench_mirror: %s\n", error.what());
    return 77;
  }
  return 0;
}
