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

// What a text stands for, and how it should have been written.
struct Wording {
  const char* what;
  const char* no_number;
  const char* remedy;
};
constexpr Wording kSizeWording{"size", "is not a size",
                               "write a number and a unit, such as 1.5GiB, 40GB, 512MiB or 65536"};
constexpr Wording kRateWording{"rate", "is not a rate",
                               "write a number and a unit a second, such as 3.2GB/s or 500MiB/s"};

[[noreturn]] void refuse(std::string_view text, const char* why, const Wording& wording) {
  throw Error(Status::kInvalid,
              std::string(wording.what) + " '" + std::string(text) + "' " + why + "; " + wording.remedy);
}

// `body` is the number and the unit in `text`, which is quoted if they are none.
long double parse_bytes(std::string_view text, std::string_view body, const Wording& wording) {
  std::size_t at = 0;
  while (at < body.size() && body[at] == ' ') ++at;
  const std::size_t number_begin = at;
  long double number = 0;
  long double scale = 1;
  bool digits = false;
  bool fraction = false;
  for (; at < body.size(); ++at) {
    if (body[at] == '.' && !fraction) {
      fraction = true;
    } else if (std::isdigit(static_cast<unsigned char>(body[at])) != 0) {
      digits = true;
      number = number * 10 + (body[at] - '0');
      if (fraction) scale *= 10;
    } else {
      break;
    }
    if (at - number_begin > 30) refuse(text, "has too many digits", wording);
  }
  if (!digits) refuse(text, wording.no_number, wording);
  std::string_view unit = body.substr(at);
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  while (!unit.empty() && unit.back() == ' ') unit.remove_suffix(1);
  const auto bytes_each = unit_bytes(unit);
  if (!bytes_each) refuse(text, "has an unknown unit", wording);
  if (fraction && unit.empty()) refuse(text, "is a fraction of bytes", wording);
  const long double bytes = number / scale * static_cast<long double>(*bytes_each);
  if (bytes > static_cast<long double>(kSizeMax)) refuse(text, "is too large", wording);
  return bytes;
}

}  // namespace

std::uint64_t parse_size(std::string_view text) {
  return static_cast<std::uint64_t>(std::floor(parse_bytes(text, text, kSizeWording)));
}

std::uint64_t parse_rate(std::string_view text) {
  std::string_view body = text;
  while (!body.empty() && body.back() == ' ') body.remove_suffix(1);
  const bool a_second = body.size() >= 2 && body.substr(body.size() - 2) == "/s";
  if (a_second) body.remove_suffix(2);
  const bool has_unit = !body.empty() && std::isalpha(static_cast<unsigned char>(body.back())) != 0;
  if (has_unit && !a_second) refuse(text, "is not in bytes a second", kRateWording);
  return static_cast<std::uint64_t>(std::llround(parse_bytes(text, body, kRateWording)));
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
