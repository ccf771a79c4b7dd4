// How a thread is made that calls something before its own function. `create` is the C library's pthread_create().
// Stateless; any thread.
#pragma once

#include <pthread.h>

#include <cerrno>
#include <cstdlib>

#include "calls/table.h"

namespace ebb::calls {

using CreateThread = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);

struct ThreadStart {
  void* (*run)(void*);
  void* argument;
  ThreadBegins begins;
};

inline void* start_thread(void* made) {
  const ThreadStart start = *static_cast<ThreadStart*>(made);
  std::free(made);
  start.begins();
  return start.run(start.argument);
}

inline int create_thread(CreateThread create, pthread_t* made, const pthread_attr_t* attributes,
                         const ThreadStart& given) {
  auto* const start = static_cast<ThreadStart*>(std::malloc(sizeof(ThreadStart)));
  if (start == nullptr) return EAGAIN;
  *start = given;
  const int error = create(made, attributes, &start_thread, start);
  if (error != 0) std::free(start);
  return error;
}

}  // namespace ebb::calls
