// See tell.h.
#include "runtime/tell.h"

#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>

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

}  // namespace ebb
