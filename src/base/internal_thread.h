// Starting a thread of Ebbtide's own. It runs no handler of the program's: one that touched absent memory would wait on
// the thread that is to serve it. Signals that an instruction of its own raises are let through: they end a process
// with a report, and drivers handle some.
//
// When its maker goes on it has begun. AddressSanitizer allocates as a thread begins, and that of GCC 12 holds no lock
// of its allocator over fork: a child forked at that moment inherits it locked, and hangs as it starts a thread itself.
// A program cannot wait for the beginning of a thread that it does not know of.
#pragma once

#include <functional>
#include <thread>

#include "ebb/status.h"

namespace ebb {

// `name`: at most 15 characters, as debuggers and `top -H` show it. kUnsupported: no thread is to be had, and `thread`
// is left as it was.
Status start_internal_thread(const char* name, std::function<void()> body, std::thread& thread);

}  // namespace ebb
