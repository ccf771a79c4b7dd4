// See tell.h.
#include "runtime/tell.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>

#include "ebb/units.h"

namespace ebb {

void tell(const char* format, ...) {
  char text[768];
  std::va_list values;
  va_start(values, format);
  const int length = std::vsnprintf(text, sizeof text, format, values);
  va_end(values);
  const auto bytes = std::min(static_cast<std::size_t>(std::max(length, 0)), sizeof text - 1);
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text, bytes);
}

std::string file_limit_in_words() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return "";
  return " (`ulimit -f` limits each file to " + format_size(limit.rlim_cur) + ": lift it)";
}

}  // namespace ebb
