// See ebb/units.h. Decimal digits are read exactly; only the fraction goes through floating point.
#include "ebb/units.h"

#include <array>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <optional>

#include "ebb/status.h"

namespace ebb {
namespace {

constexpr std::uint64_t kSizeMax = 1ull << 56;

std::optional<std::uint64_t> unit_bytes(std::string_view unit) {
  struct Unit {
    std::string_view name;
    std::uint64_t bytes;
  };
  static constexpr std::array<Unit, 14> kUnits{{{"", 1},
                                                {"b", 1},
                                                {"k", kKiB},
                                                {"kib", kKiB},
                                                {"kb", 1000},
                                                {"m", kMiB},
                                                {"mib", kMiB},
                                                {"mb", 1000 * 1000},
                                                {"g", kGiB},
                                                {"gib", kGiB},
                                                {"gb", 1000 * 1000 * 1000},
                                                {"t", 1024 * kGiB},
                                                {"tib", 1024 * kGiB},
                                                {"tb", 1000ull * 1000 * 1000 * 1000}}};
  std::string lower;
  for (const char c : unit) lower.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
  for (const Unit& known : kUnits) {
    if (known.name == lower) return known.bytes;
  }
  return std::nullopt;
}

[[noreturn]] void refuse(std::string_view text, const char* why) {
  throw Error(Status::kInvalid, "size '" + std::string(text) + "' " + why +
                                    "; write a number and a unit, such as 1.5GiB, 40GB, 512MiB or 65536");
}

}  // namespace

std::uint64_t parse_size(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size() && text[at] == ' ') ++at;
  const std::size_t number_begin = at;
  long double number = 0;
  long double scale = 1;
  bool digits = false;
  bool fraction = false;
  for (; at < text.size(); ++at) {
    if (text[at] == '.' && !fraction) {
      fraction = true;
    } else if (std::isdigit(static_cast<unsigned char>(text[at])) != 0) {
      digits = true;
      number = number * 10 + (text[at] - '0');
      if (fraction) scale *= 10;
    } else {
      break;
    }
    if (at - number_begin > 30) refuse(text, "has too many digits");
  }
  if (!digits) refuse(text, "is not a size");
  std::string_view unit = text.substr(at);
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  while (!unit.empty() && unit.back() == ' ') unit.remove_suffix(1);
  const auto bytes_each = unit_bytes(unit);
  if (!bytes_each) refuse(text, "has an unknown unit");
  const long double bytes = number / scale * static_cast<long double>(*bytes_each);
  if (bytes > static_cast<long double>(kSizeMax)) refuse(text, "is too large");
  return static_cast<std::uint64_t>(std::floor(bytes));
}

std::string format_size(std::uint64_t bytes) {
  static constexpr std::array<const char*, 6> kNames{"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1023.5 && unit + 1 < kNames.size()) {
    value /= 1024;
    ++unit;
  }
  const int decimals = unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  char text[32];
  std::snprintf(text, sizeof text, "%.*f %s", decimals, value, kNames[unit]);
  return text;
}

}  // namespace ebb
