// The interposed end of a process that runs no handler of atexit(): a parent that leaves at once after a fork, as
// daemons do, waits until its children have what they are owed.
#include <unistd.h>

#include <atomic>

#include "calls/entries/entry.h"
#include "calls/table.h"

namespace ebb::calls {
namespace {

using Exit = Next<"_exit", void(int)>;

constinit std::atomic<BeforeEnd> g_before_end{nullptr};

}  // namespace

extern "C" {

[[gnu::visibility("default")]] void ebb_calls_before_end(BeforeEnd call) { g_before_end.store(call); }

EBB_ENTRY [[gnu::noreturn]] void _exit(int status) {
  if (const BeforeEnd call = g_before_end.load(); call != nullptr) call();
  Exit::call(status);
  __builtin_unreachable();
}
EBB_ALIAS(_Exit, _exit);

}  // extern "C"
}  // namespace ebb::calls
