// See signal_chain.h.
#include "drivers/linux/process/signal_chain.h"

#include <dlfcn.h>

#include "base/check.h"
#include "calls/table.h"

namespace ebb {
namespace {

// The C library's sigaction(), also where the program's is another one.
constinit std::atomic<calls::SetAction> g_set_action{&::sigaction};

int set_action(int signal, const struct sigaction* action, struct sigaction* before) {
  return g_set_action.load(std::memory_order_acquire)(signal, action, before);
}

}  // namespace

bool has_handler(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 || (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
}

struct sigaction current_action(int signal) {
  struct sigaction action {};
  EBB_CHECK_EQ(set_action(signal, nullptr, &action), 0);
  return action;
}

void restore_default(int signal) {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  set_action(signal, &action, nullptr);
}

bool SignalChain::is_ours(const struct sigaction& action) const {
  return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == handler_;
}

bool SignalChain::first() const { return is_ours(current_action(signal_)); }

void SignalChain::put(const struct sigaction& action) {
  const unsigned slot = next_.fetch_add(1, std::memory_order_relaxed);
  actions_[slot % kActions] = action;
  last_.store(slot, std::memory_order_release);
}

void SignalChain::install() {
  const std::lock_guard lock(mutex_);
  const struct sigaction current = current_action(signal_);
  if (is_ours(current) || (installed_ && has_handler(current))) return;
  put(current);
  struct sigaction action {};
  action.sa_sigaction = handler_;
  // On the alternate stack, because an earlier handler may report an overflow of the ordinary one. Not deferred:
  // another signal's handler, which runs while ours waits, may touch an absent block as well.
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER | SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  EBB_CHECK_EQ(set_action(signal_, &action, nullptr), 0);
  installed_ = true;
  const auto keep = reinterpret_cast<calls::KeepHandler>(::dlsym(RTLD_DEFAULT, calls::kKeepHandlerName));
  if (keep != nullptr) g_set_action.store(keep(signal_, replace_), std::memory_order_release);
}

int SignalChain::replace(const struct sigaction* action, struct sigaction* before) {
  if (before != nullptr) *before = previous();
  if (action != nullptr) put(*action);
  return 0;
}

void SignalChain::pass_on(siginfo_t* info, void* context) {
  const struct sigaction previous = this->previous();
  const bool sent = info->si_code <= 0;  // by kill(2) and its like: returning does not repeat it
  if (!has_handler(previous)) {
    if (sent && previous.sa_handler == SIG_IGN) return;
    restore_default(signal_);
    if (sent) ::raise(signal_);
    return;  // the access is repeated, and ends the process with the right address in its core
  }
  if ((previous.sa_flags & SA_RESETHAND) != 0) {
    struct sigaction none {};
    none.sa_handler = SIG_DFL;
    put(none);
  }
  sigset_t mask = previous.sa_mask;
  sigset_t before;
  if ((previous.sa_flags & SA_NODEFER) == 0) ::sigaddset(&mask, signal_);
  ::pthread_sigmask(SIG_BLOCK, &mask, &before);
  if ((previous.sa_flags & SA_SIGINFO) != 0) {
    previous.sa_sigaction(signal_, info, context);
  } else {
    previous.sa_handler(signal_);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace ebb
