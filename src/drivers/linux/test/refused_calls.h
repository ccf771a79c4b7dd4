// RefusedCalls: calls of the driver that the kernel refuses when a test wants it to, which no other means brings about:
// what comes of a page for which there is no memory, of a mapping that is denied, of a move that fails half way.
//
// While one exists, its rule is asked about each ioctl(), syscall() and usleep() of this program that is not the C
// library's own; these are wrapped by the linker (cmake/EbbTests.cmake). Owned by a test; one at a time; the rule is
// called by any thread. Invariant: without one, every call is the kernel's to answer.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace ebb {

struct DriverCall {
  enum class Kind : std::uint8_t { kIoctl, kSyscall };
  Kind kind;
  unsigned long number;                // the request, or the number of the system call
  std::array<unsigned long, 6> words;  // of ioctl(), the descriptor and the argument
};

class RefusedCalls {
 public:
  // 0: the kernel answers; an errno: the call fails with it.
  using Rule = std::function<int(const DriverCall&)>;
  explicit RefusedCalls(Rule rule);
  ~RefusedCalls();
  RefusedCalls(const RefusedCalls&) = delete;
  RefusedCalls& operator=(const RefusedCalls&) = delete;
};

}  // namespace ebb
