// See signal_chain.h.
#include "drivers/linux/signal_chain.h"

#include "base/check.h"

namespace ebb {

bool has_handler(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 || (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
}

void restore_default(int signal) {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  ::sigaction(signal, &action, nullptr);
}

bool SignalChain::is_ours(const struct sigaction& action) const {
  return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == handler_;
}

bool SignalChain::first() const {
  struct sigaction current {};
  EBB_CHECK_EQ(::sigaction(signal_, nullptr, &current), 0);
  return is_ours(current);
}

void SignalChain::install() {
  const std::lock_guard lock(mutex_);
  struct sigaction current {};
  EBB_CHECK_EQ(::sigaction(signal_, nullptr, &current), 0);
  if (is_ours(current) || (installed_ && has_handler(current))) return;
  previous_ = current;
  struct sigaction action {};
  action.sa_sigaction = handler_;
  // On the alternate stack, because an earlier handler may report an overflow of the ordinary one. Not deferred:
  // another signal's handler, which runs while ours waits, may touch an absent block as well.
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER | SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  EBB_CHECK_EQ(::sigaction(signal_, &action, nullptr), 0);
  installed_ = true;
}

void SignalChain::pass_on(siginfo_t* info, void* context) const {
  const bool sent = info->si_code <= 0;  // by kill(2) and its like: returning does not repeat it
  if (!has_handler(previous_)) {
    if (sent && previous_.sa_handler == SIG_IGN) return;
    restore_default(signal_);
    if (sent) ::raise(signal_);
    return;  // the access is repeated, and ends the process with the right address in its core
  }
  sigset_t mask = previous_.sa_mask;
  sigset_t before;
  if ((previous_.sa_flags & SA_NODEFER) == 0) ::sigaddset(&mask, signal_);
  ::pthread_sigmask(SIG_BLOCK, &mask, &before);
  if ((previous_.sa_flags & SA_SIGINFO) != 0) {
    previous_.sa_sigaction(signal_, info, context);
  } else {
    previous_.sa_handler(signal_);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace ebb
