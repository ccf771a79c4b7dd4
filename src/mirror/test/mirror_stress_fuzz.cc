// Stress of the mirror: threads that map, remap, protect, fork and touch their memory, each against a model of
// it, while devices read, write and migrate it. What happens when is up to the machine; what may be read is not.
//
//   mirror_fuzz --seed 1 --runs 200        a slice
//   mirror_fuzz --seed 1 --seconds 600     by hand
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/rng.h"
#include "mirror_fixture.h"

// The leak checker stops threads with ptrace, which one that waits for a fault does not survive.
extern "C" const char* __asan_default_options();
extern "C" const char* __asan_default_options() { return "detect_leaks=0"; }

namespace ebb::mirror_test {
namespace {

constexpr std::size_t kArenaPages = 512;
constexpr std::size_t kOwners = 3;
constexpr int kOperations = 20;  // of each owner, in a run

void expect(bool right, const char* what) {
  if (right) return;
  std::fprintf(stderr, "mirror_fuzz: wrong: %s (errno %d)\n", what, errno);
  std::abort();
}

// Of an access or a migration.
void expect(bool right, const MirrorResult& result, const char* what) {
  if (right) return;
  std::fprintf(stderr, "mirror_fuzz: wrong: %s: %s at %#" PRIxPTR "\n", what, name(result.error), result.address);
  std::abort();
}

// Addresses that stay reserved, so that nobody else's memory comes to lie where the devices work; in them one mapping,
// and what its words must be.
class Owner {
 public:
  Owner(Mirror& mirror, Rng rng)
      : mirror_(mirror),
        rng_(rng),
        arena_(kArenaPages * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, kHuge),
        words_(kPagesMax) {
    map_anew();
  }

  char* base() const { return arena_.data(); }

  void operate() {
    switch (rng_.below(10)) {
      case 0: map_anew(); break;
      case 1: move(); break;
      case 2: protect(); break;
      case 3: fork_child(); break;
      case 4:
      case 5:
      case 6: device_write(); break;
      case 7: device_read(); break;
      default: touch(); break;
    }
  }

  void check_all() {
    for (std::size_t i = 0; i < pages_; ++i) expect(*word(i) == words_[i], "a word at the end of a run");
  }

 private:
  static constexpr std::size_t kPagesMax = 48;

  volatile std::uint64_t* word(std::size_t page) {
    return reinterpret_cast<std::uint64_t*>(arena_.page(first_ + page) + 64);
  }
  void reserve(std::size_t first, std::size_t pages) {
    ::mmap(arena_.page(first), pages * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
           0);
  }
  void map_anew() {
    if (pages_ > 0) reserve(first_, pages_);
    pages_ = 1 + rng_.below(kPagesMax);
    first_ = rng_.below(kArenaPages - pages_);
    void* const mapped = ::mmap(arena_.page(first_), pages_ * kPage, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    expect(mapped == arena_.page(first_), "mmap");
    std::fill(words_.begin(), words_.end(), 0);
  }
  void move() {
    const std::size_t to = rng_.below(kArenaPages - pages_);
    if (to < first_ + pages_ && first_ < to + pages_) return;
    // A range of which a part was migrated is more than one mapping. The kernel refuses to move that (EFAULT), when it
    // may have moved the first of them already (Linux 6.17): docs/mirror.md. Single pages always go.
    if (!remap(first_, to, pages_)) {
      expect(errno == EFAULT, "mremap");
      for (std::size_t i = 0; i < pages_; ++i) {
        if (mapped(first_ + i)) expect(remap(first_ + i, to + i, 1), "mremap of a page");
      }
    }
    reserve(first_, pages_);
    first_ = to;
  }
  bool remap(std::size_t from, std::size_t to, std::size_t pages) {
    return ::mremap(arena_.page(from), pages * kPage, pages * kPage, MREMAP_MAYMOVE | MREMAP_FIXED, arena_.page(to)) ==
           arena_.page(to);
  }
  bool mapped(std::size_t page) {
    unsigned char there = 0;
    return ::mincore(arena_.page(page), kPage, &there) == 0;
  }
  void protect() {
    ::mprotect(arena_.page(first_), pages_ * kPage, PROT_READ);
    const std::size_t page = rng_.below(pages_);
    expect(*word(page) == words_[page], "a word of read-only memory");
    const std::uint64_t value = 1;
    const auto bytes = std::as_bytes(std::span(&value, 1));
    const auto result = mirror_.write(0, const_cast<std::uint64_t*>(word(page)), bytes);
    expect(result.error == MirrorError::kPermission, result, "a device wrote read-only memory");
    ::mprotect(arena_.page(first_), pages_ * kPage, PROT_READ | PROT_WRITE);
  }
  void fork_child() {
    if (kThreadSanitizer || rng_.below(4) != 0) return;
    const pid_t child = ::fork();
    if (child == 0) {
      start_watchdog();
      bool right = true;
      for (std::size_t i = 0; i < pages_; ++i) right = right && *word(i) == words_[i];
      for (std::size_t i = 0; i < pages_; ++i) *word(i) = 1;
      ::_exit(right ? 0 : 1);
    }
    touch();
    expect(child > 0 && end_of(child) == 0, "a child's memory");
  }
  void device_write() {
    const std::size_t page = rng_.below(pages_);
    words_[page] = rng_.next();
    const auto bytes = std::as_bytes(std::span(&words_[page], 1));
    const auto result = mirror_.write(rng_.below(2), const_cast<std::uint64_t*>(word(page)), bytes);
    expect(result.ok(), result, "a device's write failed");
  }
  void device_read() {
    const std::size_t page = rng_.below(pages_);
    std::uint64_t got = 0;
    const auto bytes = std::as_writable_bytes(std::span(&got, 1));
    const auto result = mirror_.read(rng_.below(2), const_cast<std::uint64_t*>(word(page)), bytes);
    expect(result.ok(), result, "a device's read failed");
    expect(got == words_[page], "what a device read");
  }
  void touch() {
    for (int i = 0; i < 8; ++i) {
      const std::size_t page = rng_.below(pages_);
      expect(*word(page) == words_[page], "a word");
      if (rng_.below(2) == 0) *word(page) = words_[page] = rng_.next();
    }
  }

  Mirror& mirror_;
  Rng rng_;
  Memory arena_;
  std::vector<std::uint64_t> words_;
  std::size_t first_ = 0;
  std::size_t pages_ = 0;
};

void migrate_about(Mirror& mirror, const std::vector<std::unique_ptr<Owner>>& owners, Rng rng,
                   const std::atomic<bool>& stop) {
  while (!stop) {
    char* const at = owners[rng.below(kOwners)]->base() + rng.below(kArenaPages - 32) * kPage;
    const std::size_t bytes = (1 + rng.below(32)) * kPage;
    const std::size_t device = rng.below(2);
    MirrorResult result;
    switch (rng.below(4)) {
      case 0: result = mirror.migrate_to_host(at, bytes); break;
      case 1: result = mirror.exclusive(device, at, bytes); break;
      case 2: result = mirror.migrate_to_device(device, at, kPage); break;
      default: result = mirror.migrate_to_device(device, at, bytes); break;
    }
    // Permission: exclusive access to what was read-only just then.
    expect(result.error != MirrorError::kFault, result, "a migration's error");
  }
}

void run(std::uint64_t seed) {
  Rng rng(seed);
  MirrorOptions options;
  options.devices = {rng.below(2) == 0 ? DeviceKind::kPrivate : DeviceKind::kCoherent, DeviceKind::kPrivate};
  options.device_bytes = kHuge;  // it gets full
  options.user_mode_only = rng.below(3) == 0;
  options.fault_timeout = std::chrono::minutes(10);  // the machine may be busy, or stopped
  const auto mirror = Mirror::open(options);
  std::vector<std::unique_ptr<Owner>> owners;
  for (std::size_t i = 0; i < kOwners; ++i) owners.push_back(std::make_unique<Owner>(*mirror, rng.split()));
  std::atomic<bool> stop{false};
  std::thread migrator([&] { migrate_about(*mirror, owners, Rng(seed + 1), stop); });
  std::vector<std::thread> threads;
  for (const auto& owner : owners) {
    threads.emplace_back([&owner] {
      for (int i = 0; i < kOperations; ++i) owner->operate();
    });
  }
  for (std::thread& thread : threads) thread.join();
  stop = true;
  migrator.join();
  for (std::size_t device = 0; device < 2; ++device) expect(mirror->evict(device).ok(), "what a device had at the end");
  expect(mirror->stats().device_pages == 0, "device memory was lost");
  for (const auto& owner : owners) owner->check_all();
}

}  // namespace

int main_of(int count, char** arguments) {
  std::uint64_t seed = 1, runs = 200, seconds = 0;
  for (int i = 1; i + 1 < count; i += 2) {
    const std::uint64_t value = std::strtoull(arguments[i + 1], nullptr, 10);
    if (std::strcmp(arguments[i], "--seed") == 0) seed = value;
    if (std::strcmp(arguments[i], "--runs") == 0) runs = value;
    if (std::strcmp(arguments[i], "--seconds") == 0) seconds = value;
  }
  try {
    Mirror::open({});
  } catch (const Error& error) {
    std::printf("skipped: %s\n", error.what());
    return 77;
  }
  const std::uint64_t end = monotonic_ns() + seconds * 1'000'000'000;
  std::uint64_t done = 0;
  for (; seconds > 0 ? monotonic_ns() < end : done < runs; ++done) {
    start_watchdog();
    run(seed + done);
    stop_watchdog();
  }
  std::printf("mirror_fuzz: %llu runs from seed %llu\n", static_cast<unsigned long long>(done),
              static_cast<unsigned long long>(seed));
  return 0;
}

}  // namespace ebb::mirror_test

int main(int count, char** arguments) { return ebb::mirror_test::main_of(count, arguments); }
