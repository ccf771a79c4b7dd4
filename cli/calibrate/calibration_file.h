// The file that keeps what was measured of this machine, and the flash part of it. The other part, kernels, is written
// and read by Python (python/ebbtide/whatif/calibration.py). Main thread.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "calibrate/flash_probe.h"

namespace ebb::cli {

// $XDG_CACHE_HOME/ebbtide/calibration.json, else below ~/.cache.
std::string calibration_path();

// What is known of the flash in this directory.
std::optional<FlashSpeeds> known_flash(const std::string& directory);

// Measures it and keeps the result; a cache that cannot be written is no error. Throws like probe_flash().
FlashSpeeds calibrate_flash(const std::string& directory, const std::function<void(std::string_view)>& progress);

nlohmann::ordered_json to_json(const FlashSpeeds& speeds);

}  // namespace ebb::cli
