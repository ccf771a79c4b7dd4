// Sizes as people write them: `1.5GiB`, `40GB`, `65536`, and the literals 1.5_GiB in C++.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ebb {

inline constexpr std::uint64_t kKiB = 1024;
inline constexpr std::uint64_t kMiB = 1024 * kKiB;
inline constexpr std::uint64_t kGiB = 1024 * kMiB;

inline namespace literals {
constexpr std::uint64_t operator""_KiB(unsigned long long value) { return value * kKiB; }
constexpr std::uint64_t operator""_MiB(unsigned long long value) { return value * kMiB; }
constexpr std::uint64_t operator""_GiB(unsigned long long value) { return value * kGiB; }
constexpr std::uint64_t operator""_MiB(long double value) {
  return static_cast<std::uint64_t>(value * static_cast<long double>(kMiB));
}
constexpr std::uint64_t operator""_GiB(long double value) {
  return static_cast<std::uint64_t>(value * static_cast<long double>(kGiB));
}
}  // namespace literals

// Accepts a non-negative decimal number with an optional fraction and one of the units B, K, KB, KiB, M, MB, MiB,
// G, GB, GiB, T, TB, TiB (any case; K, M, G and T alone are binary, as in ulimit). Throws Error(kInvalid) that quotes
// the text and says what is accepted; values above 2^56 bytes are refused.
std::uint64_t parse_size(std::string_view text);

// Bytes a second: a size followed by "/s", such as 3.2GB/s, 500 MiB/s or 0/s; a number without a unit may leave "/s"
// out. Rounds to the nearest; throws like parse_size().
std::uint64_t parse_rate(std::string_view text);

// "1.5 GiB", "512 KiB", "0 B": three significant digits, binary units.
std::string format_size(std::uint64_t bytes);

}  // namespace ebb
