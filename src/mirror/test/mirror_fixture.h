// What the tests of the mirror share: process memory of every kind, patterns in it, children, and a watchdog. Each test
// runs for private and coherent devices, with and without the privilege of full userfaultfd.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "base/test/in_a_child.h"
#include "ebb/mirror.h"

#if defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadSanitizer = true;
#else
inline constexpr bool kThreadSanitizer = false;
#endif

namespace ebb::mirror_test {

inline constexpr std::size_t kPage = 4096;
inline constexpr std::size_t kHuge = 2u << 20;

// After a minute, not counting while the process is stopped: prints what every thread of the process waits for, and
// aborts. A debugger cannot tell: it hangs with a process whose fault is pending.
void start_watchdog();
void stop_watchdog();

// Memory of the test, unmapped at its end where it still is.
class Memory {
 public:
  explicit Memory(std::size_t bytes, int protection = PROT_READ | PROT_WRITE, int flags = MAP_PRIVATE | MAP_ANONYMOUS,
                  int fd = -1, std::size_t alignment = kPage);
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { ::munmap(data_, bytes_); }
  char* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  char* page(std::size_t index) const { return data_ + index * kPage; }

 private:
  char* data_;
  std::size_t bytes_;
};
// One aligned huge page, if the kernel has them and is not advised otherwise.
class HugeMemory : public Memory {
 public:
  explicit HugeMemory(int advice = MADV_HUGEPAGE)
      : Memory(kHuge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, kHuge) {
    ::madvise(data(), kHuge, advice);
  }
};

void fill(void* data, std::size_t bytes, std::uint32_t seed);
bool holds(const void* data, std::size_t bytes, std::uint32_t seed);
inline void fill(const Memory& memory, std::uint32_t seed) { fill(memory.data(), memory.bytes(), seed); }
inline bool holds(const Memory& memory, std::uint32_t seed) { return holds(memory.data(), memory.bytes(), seed); }
std::vector<std::byte> pattern(std::size_t bytes, std::uint32_t seed);

// An unnamed file of this size, with the pattern.
int pattern_file(std::size_t bytes, std::uint32_t seed);

using Parameters = std::tuple<DeviceKind, bool>;  // user mode only
std::string parameters_name(const testing::TestParamInfo<Parameters>& info);
inline auto all_parameters() {
  return testing::Combine(testing::Values(DeviceKind::kPrivate, DeviceKind::kCoherent), testing::Bool());
}

class MirrorTest : public testing::TestWithParam<Parameters> {
 protected:
  void SetUp() override;
  void TearDown() override;

  bool coherent() const { return std::get<0>(GetParam()) == DeviceKind::kCoherent; }
  bool user_mode_only() const { return std::get<1>(GetParam()); }
  MirrorOptions options() const;
  // In a test that forks: not under the thread sanitizer.
  static bool can_fork() { return !kThreadSanitizer; }

  bool device_reads(const void* data, std::size_t bytes, std::uint32_t seed, std::size_t device = 0);
  MirrorResult device_writes(void* data, std::size_t bytes, std::uint32_t seed, std::size_t device = 0);
  bool to_device(void* data, std::size_t bytes, std::size_t device = 0);
  std::size_t on_device(const void* data, std::size_t bytes, std::size_t device = 0);
  bool device_reads(const Memory& memory, std::uint32_t seed, std::size_t device = 0) {
    return device_reads(memory.data(), memory.bytes(), seed, device);
  }
  bool to_device(const Memory& memory, std::size_t device = 0) {
    return to_device(memory.data(), memory.bytes(), device);
  }
  bool fill_on_device(const Memory& memory, std::uint32_t seed) {
    fill(memory, seed);
    return to_device(memory);
  }
  std::size_t on_device(const Memory& memory, std::size_t device = 0) {
    return on_device(memory.data(), memory.bytes(), device);
  }

  // Runs `body` in a child; what it returns is the child's exit code. end_of() says it.
  template <typename Body>
  pid_t fork_child(Body body) {
    const pid_t child = ::fork();
    if (child != 0) return child;
    start_watchdog();  // timers are not inherited
    ::_exit(body());
  }

  std::unique_ptr<Mirror> mirror_;  // two devices of the kind
};

}  // namespace ebb::mirror_test
