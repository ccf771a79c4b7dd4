// The report of a run: one page of its own, with its data as JSON in it and a script that draws them; nothing to fetch.
// Pure functions.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace ebb::cli {

// What a file of this name has of them: if it ends in .json the data alone, else the page. `data`: what report_json()
// made.
std::string report_file(const std::string& path, const nlohmann::ordered_json& data);

}  // namespace ebb::cli
