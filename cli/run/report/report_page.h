// The report of a run: one page of its own, with its data as JSON in it and a script that draws them; nothing to fetch.
// Pure functions.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace ebb::cli {

// `data`: what report_json() made.
std::string report_page(const nlohmann::ordered_json& data);

}  // namespace ebb::cli
