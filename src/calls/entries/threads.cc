// The interposed call that begins a thread: where faults are signals (the fallback driver), each has a stack for them
// from the beginning. Who makes the thread, as an OpenMP of a program's, knows nothing of us.
#include <pthread.h>

#include <atomic>

#include "calls/entries/entry.h"
#include "calls/table.h"
#include "calls/thread_start.h"

namespace ebb::calls {
namespace {

using Create = Next<"pthread_create", int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*)>;

constinit std::atomic<ThreadBegins> g_thread_begins{nullptr};

}  // namespace

extern "C" {

[[gnu::visibility("default")]] void ebb_calls_thread_begins(ThreadBegins call) { g_thread_begins.store(call); }

EBB_ENTRY int pthread_create(pthread_t* made, const pthread_attr_t* attributes, void* (*run)(void*),
                             void* argument) noexcept {
  const ThreadBegins begins = g_thread_begins.load();
  if (begins == nullptr) return Create::call(made, attributes, run, argument);
  return create_thread(&Create::call, made, attributes, {run, argument, begins});
}

}  // extern "C"
}  // namespace ebb::calls
