// A device reads and writes process memory: rows 1 to 11, 19 to 21, 39 and 40 of the table in docs/mirror.md. What they
// demand is what the HMM self-tests of Linux do (tools/testing/selftests/mm/hmm-tests.c); the tests are our own.
#include <dirent.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include <atomic>
#include <thread>

#include "drivers/linux/userfault/userfault.h"
#include "mirror_fixture.h"

namespace ebb::mirror_test {
namespace {

std::size_t entries_of(const char* folder) {
  DIR* const open = ::opendir(folder);
  std::size_t count = 0;
  while (::readdir(open) != nullptr) ++count;
  ::closedir(open);
  return count;
}

class Access : public MirrorTest {};

TEST_P(Access, Row01_OpenClose) {
  Memory memory(16 * kPage);
  fill(memory.data(), memory.bytes() / 2, 1);
  mirror_.reset();
  const std::size_t descriptors = entries_of("/proc/self/fd");
  for (int i = 0; i < 10; ++i) {
    mirror_ = Mirror::open(options());
    ASSERT_TRUE(to_device(memory));
    mirror_.reset();
    EXPECT_TRUE(holds(memory.data(), memory.bytes() / 2, 1));
    ::madvise(memory.page(12), kPage, MADV_DONTNEED);  // nobody is told, and nobody is asked
    EXPECT_EQ(*memory.page(12), 0);
  }
  EXPECT_EQ(entries_of("/proc/self/fd"), descriptors);
}

TEST_P(Access, Row02_AnonRead) {
  Memory memory(16 * kPage, PROT_READ);
  EXPECT_EQ(*static_cast<volatile char*>(memory.page(3)), 0);  // the zero page; the others were never touched
  std::vector<std::byte> got(memory.bytes(), std::byte{0xff});
  const MirrorResult result = mirror_->read(0, memory.data(), got);
  EXPECT_TRUE(result.ok());
  EXPECT_EQ(result.pages, 16u);
  EXPECT_EQ(got, std::vector<std::byte>(memory.bytes()));
}

TEST_P(Access, Row03_AnonReadProt) {
  Memory memory(4 * kPage);
  fill(memory, 1);
  ::mprotect(memory.page(2), kPage, PROT_NONE);
  const std::vector<std::byte> before(memory.bytes(), std::byte{0xab});
  std::vector<std::byte> got = before;
  const MirrorResult result = mirror_->read(0, memory.data(), got);
  EXPECT_EQ(result.error, MirrorError::kFault);
  EXPECT_EQ(result.address, reinterpret_cast<std::uintptr_t>(memory.page(2)));
  EXPECT_EQ(got, before);
}

TEST_P(Access, Row04_AnonWrite) {
  Memory memory(16 * kPage);
  EXPECT_TRUE(device_writes(memory.data(), memory.bytes(), 5).ok());
  EXPECT_TRUE(holds(memory, 5));
}

TEST_P(Access, Row05_AnonWriteProt) {
  Memory memory(4 * kPage, PROT_READ);
  EXPECT_EQ(device_writes(memory.data(), memory.bytes(), 5).error, MirrorError::kPermission);
  for (std::size_t i = 0; i < memory.bytes(); ++i) ASSERT_EQ(memory.data()[i], 0);
  ::mprotect(memory.data(), memory.bytes(), PROT_READ | PROT_WRITE);
  EXPECT_TRUE(device_writes(memory.data(), memory.bytes(), 5).ok());
  EXPECT_TRUE(holds(memory, 5));
}

TEST_P(Access, Row07_AnonWriteChildShared) {
  if (!can_fork()) GTEST_SKIP() << "the thread sanitizer holds its locks in fork";
  Memory memory(4 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS);
  fill(memory, 1);
  const pid_t child = fork_child([&] {
    const auto own = Mirror::open(options());
    return own->write(0, memory.data(), pattern(memory.bytes(), 9)).ok() ? 0 : 1;
  });
  EXPECT_EQ(end_of(child), 0);
  EXPECT_TRUE(holds(memory, 9));
}

TEST_P(Access, Row08_AnonWriteHuge) {
  const HugeMemory memory;
  EXPECT_TRUE(device_writes(memory.data(), memory.bytes(), 8).ok());
  EXPECT_TRUE(holds(memory, 8));
}

TEST_P(Access, Row09_AnonWriteHugetlbfs) {
  void* const data = ::mmap(nullptr, kHuge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
  if (data == MAP_FAILED) GTEST_SKIP() << "this machine has no hugetlb pages (sysctl vm.nr_hugepages)";
  EXPECT_TRUE(device_writes(data, kHuge, 8).ok());
  EXPECT_TRUE(holds(data, kHuge, 8));
  EXPECT_EQ(mirror_->migrate_to_device(0, data, kHuge).error, MirrorError::kBadRange);
  ::munmap(data, kHuge);
}

TEST_P(Access, Row10_FileRead) {
  const int file = pattern_file(4 * kPage, 3);
  Memory memory(4 * kPage, PROT_READ, MAP_SHARED, file);
  EXPECT_TRUE(device_reads(memory, 3));
  ::close(file);
}

TEST_P(Access, Row11_FileWrite) {
  const int file = pattern_file(4 * kPage, 3);
  Memory memory(4 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, file);
  EXPECT_TRUE(device_writes(memory.data(), memory.bytes(), 4).ok());
  std::vector<std::byte> got(memory.bytes());
  ASSERT_EQ(::pread(file, got.data(), got.size(), 0), static_cast<ssize_t>(got.size()));
  EXPECT_TRUE(holds(got.data(), got.size(), 4));
  ::close(file);
}

TEST_P(Access, Row19_AnonReadMultiple) {
  // The same address again and again, with new memory each time: nothing of the one before may be left.
  char* const place = static_cast<char*>(::mmap(nullptr, 8 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  for (std::uint32_t round = 0; round < 20; ++round) {
    void* const data = ::mmap(place, 8 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    ASSERT_EQ(data, place);
    fill(place, 8 * kPage, round);
    EXPECT_TRUE(device_reads(place, 8 * kPage, round));
    if (round % 2 == 0) {
      EXPECT_TRUE(to_device(place, 8 * kPage));
    }
    EXPECT_TRUE(device_reads(place, 8 * kPage, round));
  }
  ::munmap(place, 8 * kPage);
  EXPECT_EQ(mirror_->stats().device_pages, 0u);
}

TEST_P(Access, Row20_AnonTeardown) {
  constexpr std::size_t kBytes = 64 * kPage;
  for (int round = 0; round < 20; ++round) {
    auto* const data =
        static_cast<char*>(::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    std::memset(data, round + 1, kBytes);
    if (round % 2 == 1) {
      ASSERT_TRUE(to_device(data, kBytes));
    }
    std::vector<std::byte> got(kBytes);
    std::atomic<bool> go{false};
    std::thread teardown([&] {
      while (!go) std::this_thread::yield();
      ::munmap(data + kBytes / 2, kBytes / 2);
    });
    go = true;
    const MirrorResult result = mirror_->read(0, data, got);
    teardown.join();
    const std::size_t right = result.ok() ? kBytes : result.pages * kPage;
    EXPECT_TRUE(result.ok() || result.error == MirrorError::kFault) << name(result.error);
    for (std::size_t i = 0; i < right; i += kPage) ASSERT_EQ(got[i], std::byte(round + 1)) << i;
    EXPECT_EQ(data[0], round + 1);
    ::munmap(data, kBytes / 2);
  }
}

TEST_P(Access, Row21_Mixedmap) {
  // Pages that a driver put there: the rings of io_uring. What is not memory at all is refused.
  char parameters[120] = {};
  const auto ring = static_cast<int>(::syscall(SYS_io_uring_setup, 8, parameters));
  if (ring < 0) GTEST_SKIP() << "io_uring is denied to this process";
  Memory memory(kPage, PROT_READ | PROT_WRITE, MAP_SHARED, ring);
  const PageView view = mirror_->snapshot(0, memory.data(), kPage).at(0);
  EXPECT_TRUE(view.mapped && view.read);
  std::vector<std::byte> got(kPage);
  EXPECT_TRUE(mirror_->read(0, memory.data(), got).ok());
  EXPECT_EQ(std::memcmp(got.data(), memory.data(), kPage), 0);
  EXPECT_EQ(mirror_->migrate_to_device(0, memory.data(), kPage).error, MirrorError::kBadRange);
  ::close(ring);
}

// Somebody else's userfaultfd on `memory`, in a thread that fills its pages once it is told to.
class Server {
 public:
  explicit Server(const Memory& memory) : memory_(memory), content_(pattern(kPage, 77)) {
    EXPECT_EQ(Userfault::open({}, userfault_), 0);
    EXPECT_EQ(userfault_.watch(memory.data(), memory.bytes()), 0);
  }
  void serve(std::size_t pages) {
    thread_ = std::thread([this, pages] {
      for (std::size_t served = 0; served < pages;) {
        pollfd polled{userfault_.fd(), POLLIN, 0};
        ::poll(&polled, 1, 1000);
        uffd_msg message;
        if (!userfault_.read(message)) continue;
        auto* const page = reinterpret_cast<void*>(message.arg.pagefault.address & ~(kPage - 1));
        if (userfault_.copy(page, content_.data(), kPage).error == 0) ++served;
      }
    });
  }
  ~Server() {
    if (thread_.joinable()) thread_.join();
    userfault_.unwatch(memory_.data(), memory_.bytes());
  }

 private:
  const Memory& memory_;
  std::vector<std::byte> content_;
  Userfault userfault_;
  std::thread thread_;
};

TEST_P(Access, Row39_UserfaultfdRead) {
  if (user_mode_only()) GTEST_SKIP() << "does not apply: without the privilege nobody can serve the kernel";
  Memory memory(4 * kPage);
  Server server(memory);
  server.serve(4);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_TRUE(device_reads(memory.page(i), kPage, 77));
  EXPECT_EQ(mirror_->migrate_to_device(0, memory.data(), memory.bytes()).error, MirrorError::kNotMigratable);
}

TEST_P(Access, Row40_UserfaultfdTimeout) {
  if (user_mode_only()) GTEST_SKIP() << "does not apply: without the privilege nobody can serve the kernel";
  MirrorOptions hasty = options();
  hasty.fault_timeout = std::chrono::milliseconds(50);
  const auto mirror = Mirror::open(hasty);
  Memory memory(kPage);
  const Server server(memory);
  std::vector<std::byte> got(kPage);
  EXPECT_EQ(mirror->read(0, memory.data(), got).error, MirrorError::kBusy);
}

INSTANTIATE_TEST_SUITE_P(Rows, Access, all_parameters(), parameters_name);

}  // namespace
}  // namespace ebb::mirror_test
