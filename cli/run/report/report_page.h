// The report of a run: one page of its own, with its data as JSON in it and a script that draws them; nothing to fetch.
// Pure functions.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace ebb::cli {

// Whether a report goes into this file as data, without a page around them: its name ends in .json.
bool is_report_data(const std::string& path);

// `data`: what report_json() made.
std::string report_page(const nlohmann::ordered_json& data);

}  // namespace ebb::cli
