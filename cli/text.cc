// See text.h.
#include "text.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

namespace ebb::cli {

std::string format_seconds(double seconds) {
  const bool short_time = seconds < 0.9995;
  const double value = short_time ? seconds * 1e3 : seconds;
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}", value, decimals, short_time ? "ms" : "s");
}

bool wants_colour(int fd) {
  const char* refused = std::getenv("NO_COLOR");
  const bool allowed = refused == nullptr || *refused == '\0';
  return allowed && ::isatty(fd) == 1;
}

}  // namespace ebb::cli
