// See trapped_copy.h. The copy is the C library's, left by a jump out of the handler: it holds nothing, and the signals
// are not deferred, so nothing needs to be put right after the jump.
#include "drivers/linux/process/trapped_copy.h"

#include <setjmp.h>
#include <signal.h>

#include <atomic>
#include <cstdint>
#include <cstring>

#include "drivers/linux/process/signal_chain.h"

namespace ebb {
namespace {

struct Trap {
  sigjmp_buf landing;
  std::uintptr_t to;
  std::uintptr_t from;
  std::size_t bytes;

  bool holds(std::uintptr_t address) const { return address - to < bytes || address - from < bytes; }
};

// Of this model, so that a handler on any thread can read it without an allocation.
[[gnu::tls_model("initial-exec")]] thread_local Trap* t_trap = nullptr;

void handle_fault(int signal, siginfo_t* info, void* context);
constinit SignalChain g_segment_faults(SIGSEGV, handle_fault,
                                       [](const struct sigaction* action, struct sigaction* before) {
                                         return g_segment_faults.replace(action, before);
                                       });
constinit SignalChain g_bus_errors(SIGBUS, handle_fault, [](const struct sigaction* action, struct sigaction* before) {
  return g_bus_errors.replace(action, before);
});

// Another signal's handler may run in the middle of a copy, and its faults are its own: the address tells.
void handle_fault(int signal, siginfo_t* info, void* context) {
  Trap* const trap = t_trap;
  const bool raised = info->si_code > 0;
  if (trap != nullptr && raised && trap->holds(reinterpret_cast<std::uintptr_t>(info->si_addr))) {
    siglongjmp(trap->landing, 1);
  }
  (signal == SIGSEGV ? g_segment_faults : g_bus_errors).pass_on(info, context);
}

bool trap_stands() {
  sigset_t blocked;
  ::pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  return ::sigismember(&blocked, SIGSEGV) == 0 && ::sigismember(&blocked, SIGBUS) == 0 && g_segment_faults.first() &&
         g_bus_errors.first();
}

}  // namespace

void make_trap() {
  g_segment_faults.install();
  g_bus_errors.install();
}

bool trapped_copy(void* to, const void* from, std::size_t bytes) {
  if (t_trap != nullptr || !trap_stands()) return false;
  Trap trap;
  trap.to = reinterpret_cast<std::uintptr_t>(to);
  trap.from = reinterpret_cast<std::uintptr_t>(from);
  trap.bytes = bytes;
  if (sigsetjmp(trap.landing, 0) != 0) {
    t_trap = nullptr;
    return false;
  }
  t_trap = &trap;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  std::memcpy(to, from, bytes);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  t_trap = nullptr;
  return true;
}

}  // namespace ebb
