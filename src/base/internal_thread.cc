// See internal_thread.h.
#include "base/internal_thread.h"

#include <pthread.h>
#include <signal.h>

#include <new>
#include <system_error>
#include <utility>

namespace ebb {

Status start_internal_thread(const char* name, std::function<void()> body, std::thread& thread) {
  sigset_t blocked;
  sigset_t before;
  ::sigfillset(&blocked);
  for (const int raised : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS, SIGABRT}) ::sigdelset(&blocked, raised);
  // Blocked before it starts: a thread begins with the mask of its maker.
  ::pthread_sigmask(SIG_BLOCK, &blocked, &before);
  Status status = Status::kOk;
  try {
    std::thread made(std::move(body));
    ::pthread_setname_np(made.native_handle(), name);
    thread = std::move(made);
  } catch (const std::system_error&) {
    status = Status::kUnsupported;
  } catch (const std::bad_alloc&) {
    status = Status::kUnsupported;
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return status;
}

}  // namespace ebb
