// Whole numbers that users write. Stateless; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ebb::cli {

// All of `text` as a number from `least` to `most`; none if it is anything else.
std::optional<std::uint32_t> read_number(const std::string& text, std::uint32_t least, std::uint32_t most);

}  // namespace ebb::cli
