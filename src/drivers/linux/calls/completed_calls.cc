// See completed_calls.h.
#include "drivers/linux/calls/completed_calls.h"

#include <dlfcn.h>

#include "calls/table.h"

namespace ebb {
namespace {

// Looked up with the first range, which a driver registers before there is a runtime: dlsym() takes a lock that another
// thread may hold while it waits for the runtime's.
struct Library {
  calls::Register add = reinterpret_cast<calls::Register>(::dlsym(RTLD_DEFAULT, calls::kRegisterName));
  calls::Unregister remove = reinterpret_cast<calls::Unregister>(::dlsym(RTLD_DEFAULT, calls::kUnregisterName));
};
const Library& library() {
  static const Library found;
  return found;
}

}  // namespace

void before_end_of_process(void (*call)()) {
  const auto set = reinterpret_cast<calls::SetBeforeEnd>(::dlsym(RTLD_DEFAULT, calls::kBeforeEndName));
  if (set != nullptr) set(call);
}

CompletedCalls::CompletedCalls(const void* begin, std::size_t bytes, bool absent_fails, bool ours) {
  const unsigned registered = (absent_fails ? calls::kAbsentFails : 0u) | (ours ? calls::kOurs : 0u);
  if (library().add != nullptr && library().add(begin, bytes, registered) == 0) begin_ = begin;
}

void CompletedCalls::end() {
  if (begin_ == nullptr) return;
  library().remove(begin_);
  begin_ = nullptr;
}

const char* CompletedCalls::text() const {
  return active() ? "system calls on absent blocks are completed by libebb_calls.so"
                  : "a system call on an absent block fails with EFAULT (start the program with `ebb run`, or with "
                    "LD_PRELOAD=libebb_calls.so)";
}

}  // namespace ebb
