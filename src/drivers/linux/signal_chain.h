// SignalChain: one handler of ours for one signal that an access raises, SIGSEGV or SIGBUS, in front of whatever the
// program had there; what is not ours goes on to that. A constant-initialised static object, so that the handler may
// use it whatever has been destroyed; never taken out, because somebody may have chained to it since.
#pragma once

#include <signal.h>

#include <mutex>

namespace ebb {

class SignalChain {
 public:
  using Handler = void (*)(int, siginfo_t*, void*);

  constexpr SignalChain(int signal, Handler handler) : signal_(signal), handler_(handler) {}

  // Any thread; may be repeated. Again only where somebody has since reset the signal: over a handler that may pass on
  // to ours the two would call each other for ever.
  void install();
  // Whether the handler is the first to be called, at this moment.
  bool first() const;
  // For the handler: what would have happened without us.
  void pass_on(siginfo_t* info, void* context) const;

 private:
  bool is_ours(const struct sigaction& action) const;

  const int signal_;
  const Handler handler_;
  std::mutex mutex_;  // of install()
  bool installed_ = false;
  struct sigaction previous_ {};
};

bool has_handler(const struct sigaction& action);
// What the kernel does when nobody has said otherwise. Callable in a handler.
void restore_default(int signal);

}  // namespace ebb
