// JSON as it is written. Arguments and names may be any bytes, JSON may not: what is no UTF-8 is replaced.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace ebb::cli {

// For people too: two spaces a level, and the end of the line.
inline std::string json_text(const nlohmann::ordered_json& json) {
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

// In one line, without its end.
inline std::string json_line(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace ebb::cli
