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

struct Memory {
  void* begin = nullptr;  // null: there was none
  std::size_t bytes = 0;
};

Memory map_stack(stack_t& stack) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t frame = ::getauxval(AT_MINSIGSTKSZ);
  const std::size_t bytes = (kHandlerBytes + frame + page - 1) / page * page + page;
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED) return {};
  ::mprotect(memory, page, PROT_NONE);  // who needs more than that ends here
  stack = {};
  stack.ss_sp = static_cast<std::byte*>(memory) + page;
  stack.ss_size = bytes - page;
  return {memory, bytes};
}

class SignalStack {
 public:
  SignalStack() {
    stack_t stack{};
    if (::sigaltstack(nullptr, &stack) != 0 || (stack.ss_flags & SS_DISABLE) == 0) return;
    memory_ = map_stack(stack);
    if (memory_.begin == nullptr || ::sigaltstack(&stack, nullptr) == 0) return;
    ::munmap(memory_.begin, memory_.bytes);
    memory_ = {};
  }
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;
  ~SignalStack() {
    if (memory_.begin == nullptr) return;
    stack_t now{};
    const bool ours = ::sigaltstack(nullptr, &now) == 0 && now.ss_sp > memory_.begin &&
                      now.ss_sp < static_cast<std::byte*>(memory_.begin) + memory_.bytes;
    if (ours) {
      stack_t none{};
      none.ss_flags = SS_DISABLE;
      if (::sigaltstack(&none, nullptr) != 0) return;  // the thread ends in a handler, on it
    }
    ::munmap(memory_.begin, memory_.bytes);
  }

 private:
  Memory memory_;
};

}  // namespace

void ensure_signal_stack() {
  static thread_local const SignalStack stack;
  static_cast<void>(stack);
}

void give_signal_stack(ucontext_t& interrupted) {
  if ((interrupted.uc_stack.ss_flags & SS_DISABLE) != 0) map_stack(interrupted.uc_stack);
}

}  // namespace ebb
