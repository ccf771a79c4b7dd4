// Whole numbers that users write. Stateless; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ebb::cli {

// All of `text` as a number from `least` to `most`; none if it is anything else.
std::optional<std::uint32_t> read_number(const std::string& text, std::uint32_t least, std::uint32_t most);

// The number that is all there is behind `prefix`; none if `text` is anything else.
std::optional<std::uint32_t> number_after(std::string_view prefix, std::string_view text);

}  // namespace ebb::cli
