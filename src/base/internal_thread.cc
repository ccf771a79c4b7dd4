// See internal_thread.h.
#include "base/internal_thread.h"

#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <memory>
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
  std::shared_ptr<std::atomic<bool>> begun;  // the thread's too: it may be done with it after its maker is
  try {
    begun = std::make_shared<std::atomic<bool>>(false);
    std::thread made([begun, body = std::move(body)] {
      *begun = true;
      begun->notify_one();
      body();
    });
    ::pthread_setname_np(made.native_handle(), name);
    thread = std::move(made);
  } catch (const std::system_error&) {
    status = Status::kUnsupported;
  } catch (const std::bad_alloc&) {
    status = Status::kUnsupported;
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (status == Status::kOk) begun->wait(false);
  return status;
}

}  // namespace ebb
