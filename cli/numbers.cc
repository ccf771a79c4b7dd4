// See numbers.h.
#include "numbers.h"

#include <charconv>
#include <limits>

namespace ebb::cli {

std::optional<std::uint32_t> read_number(const std::string& text, std::uint32_t least, std::uint32_t most) {
  std::uint32_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end || number < least || number > most) return std::nullopt;
  return number;
}

std::optional<std::uint32_t> number_after(std::string_view prefix, std::string_view text) {
  if (!text.starts_with(prefix)) return std::nullopt;
  return read_number(std::string(text.substr(prefix.size())), 0, std::numeric_limits<std::uint32_t>::max());
}

}  // namespace ebb::cli
