// See signal_stack.h.
#include "drivers/linux/process/signal_stack.h"

#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>

namespace ebb {
namespace {

#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif
// Beside the frame, whose size depends on the processor: our handler, and a program's that it passes the signal on to.
constexpr std::size_t kHandlerBytes = std::size_t{64} << 10;

class SignalStack {
 public:
  SignalStack() {
    stack_t theirs{};
    if (::sigaltstack(nullptr, &theirs) != 0 || (theirs.ss_flags & SS_DISABLE) == 0) return;
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    const std::size_t frame = ::getauxval(AT_MINSIGSTKSZ);
    const std::size_t bytes = (kHandlerBytes + frame + page - 1) / page * page + page;
    void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (memory == MAP_FAILED) return;
    ::mprotect(memory, page, PROT_NONE);  // who needs more than that ends here
    stack_t ours{};
    ours.ss_sp = static_cast<std::byte*>(memory) + page;
    ours.ss_size = bytes - page;
    if (::sigaltstack(&ours, nullptr) != 0) {
      ::munmap(memory, bytes);
      return;
    }
    memory_ = memory;
    bytes_ = bytes;
  }
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;
  ~SignalStack() {
    if (memory_ == nullptr) return;
    stack_t now{};
    const bool ours = ::sigaltstack(nullptr, &now) == 0 && now.ss_sp > memory_ &&
                      now.ss_sp < static_cast<std::byte*>(memory_) + bytes_;
    if (ours) {
      stack_t none{};
      none.ss_flags = SS_DISABLE;
      if (::sigaltstack(&none, nullptr) != 0) return;  // the thread ends in a handler, on it
    }
    ::munmap(memory_, bytes_);
  }

 private:
  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace

void ensure_signal_stack() {
  static thread_local const SignalStack stack;
  static_cast<void>(stack);
}

}  // namespace ebb
