// See check.h. Formats by hand and writes with write(2): no allocation, no locks.
#include "base/check.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "ebb/status.h"

namespace ebb {

void check_failed(const char* file, int line, const char* condition, std::uint64_t left, std::uint64_t right) {
  char text[512];
  const int length = std::snprintf(text, sizeof text,
                                   "ebb: internal error at %s:%d: %s (left %llu, right %llu). "
                                   "Please report this line.\n",
                                   file, line, condition, static_cast<unsigned long long>(left),
                                   static_cast<unsigned long long>(right));
  if (length > 0) {
    const auto bytes = static_cast<std::size_t>(length) < sizeof text ? static_cast<std::size_t>(length) : sizeof text;
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text, bytes);
  }
  std::abort();
}

const char* name(Status status) {
  switch (status) {
    case Status::kOk: return "ok";
    case Status::kBusy: return "busy";
    case Status::kNoMemory: return "out of memory";
    case Status::kNoSpace: return "no space on flash";
    case Status::kIoError: return "I/O error";
    case Status::kCorrupt: return "corrupt data";
    case Status::kUnsupported: return "unsupported";
    case Status::kInvalid: return "invalid";
  }
  return "unknown";
}

}  // namespace ebb
