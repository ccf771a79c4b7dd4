// SignalChain: one handler of ours for one signal that an access raises, SIGSEGV or SIGBUS, in front of whatever the
// program had there; what is not ours goes on to that. A constant-initialised static object, so that the handler may
// use it whatever has been destroyed; never taken out, because somebody may have chained to it since.
//
// Where the process has libebb_calls.so (src/calls), the handler also stays in front of what the program installs
// later: that becomes what the handler goes on to. Without it, whoever installs a handler takes ours away.
#pragma once

#include <signal.h>

#include <array>
#include <atomic>
#include <mutex>

namespace ebb {

class SignalChain {
 public:
  using Handler = void (*)(int, siginfo_t*, void*);
  // What the program's sigaction() becomes: replace() of the chain.
  using Replace = int (*)(const struct sigaction* action, struct sigaction* before);

  constexpr SignalChain(int signal, Handler handler, Replace replacer)
      : signal_(signal), handler_(handler), replace_(replacer) {}

  // Any thread; may be repeated. Again only where somebody has since reset the signal: over a handler that may pass on
  // to ours the two would call each other for ever.
  void install();
  // Whether the handler is the first to be called, at this moment.
  bool first() const;
  // For the handler: what would have happened without us.
  void pass_on(siginfo_t* info, void* context);
  // sigaction() as the program sees it. Allowed in a handler.
  int replace(const struct sigaction* action, struct sigaction* before);

 private:
  // Of the program's handlers one is in force, which a handler may just be reading: they follow each other in a ring.
  static constexpr unsigned kActions = 64;

  bool is_ours(const struct sigaction& action) const;
  void put(const struct sigaction& action);
  struct sigaction previous() const {
    return actions_[last_.load(std::memory_order_acquire) % kActions];
  }

  const int signal_;
  const Handler handler_;
  const Replace replace_;
  std::mutex mutex_;  // of install()
  bool installed_ = false;
  std::array<struct sigaction, kActions> actions_{};
  std::atomic<unsigned> next_{1};
  std::atomic<unsigned> last_{0};
};

bool has_handler(const struct sigaction& action);
// The handler that the kernel calls, whoever has installed it.
struct sigaction current_action(int signal);
// What the kernel does when nobody has said otherwise. Callable in a handler.
void restore_default(int signal);

}  // namespace ebb
