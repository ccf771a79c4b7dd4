// Starting a thread of Ebbtide's own. It runs no handler of the program's: one that touched absent memory would wait on
// the thread that is to serve it. Signals that an instruction of its own raises are let through: they end a process
// with a report, and drivers handle some.
#pragma once

#include <functional>
#include <thread>

#include "ebb/status.h"

namespace ebb {

// `name`: at most 15 characters, as debuggers and `top -H` show it. kUnsupported: no thread is to be had, and `thread`
// is left as it was.
Status start_internal_thread(const char* name, std::function<void()> body, std::thread& thread);

}  // namespace ebb
