// The interposed calls that say what a signal does. Where faults are signals (the fallback driver), the handler that
// serves them has to stay the first: what the program installs is what that handler passes on to, and what the program
// is told was there before.
#include <errno.h>
#include <signal.h>

#include <atomic>

#include "calls/entries/entry.h"
#include "calls/table.h"

namespace ebb::calls {
namespace {

using Sigaction = Next<"sigaction", int(int, const struct sigaction*, struct sigaction*)>;
using Signal = Next<"signal", sighandler_t(int, sighandler_t)>;

constinit std::atomic<Replace> g_kept[NSIG];

// The kept handler's way to replace what it passes on to; null where there is none.
Replace kept(int signal) {
  return signal > 0 && signal < NSIG ? g_kept[signal].load(std::memory_order_acquire) : nullptr;
}

}  // namespace

extern "C" {

EBB_ENTRY int sigaction(int signal, const struct sigaction* action, struct sigaction* before) noexcept {
  const Replace replace = kept(signal);
  return replace != nullptr ? replace(action, before) : Sigaction::call(signal, action, before);
}

EBB_ENTRY sighandler_t signal(int signal, sighandler_t handler) noexcept {
  const Replace replace = kept(signal);
  if (replace == nullptr) return Signal::call(signal, handler);
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  return replace(&action, &before) == 0 ? before.sa_handler : SIG_ERR;
}

// See table.h. The first one stays: a second handler of the runtime's stands before the first.
EBB_ENTRY SetAction ebb_calls_keep_handler(int signal, Replace replace) {
  Replace none = nullptr;
  if (signal > 0 && signal < NSIG) g_kept[signal].compare_exchange_strong(none, replace, std::memory_order_acq_rel);
  return &Sigaction::call;
}

}  // extern "C"

EBB_ALIAS(__sigaction, sigaction);
EBB_ALIAS(bsd_signal, signal);
EBB_ALIAS(ssignal, signal);

}  // namespace ebb::calls
