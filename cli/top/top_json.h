// `ebb top --json`. Pure function, but for the time of day.
#pragma once

#include <nlohmann/json.hpp>

#include "top/activity.h"

namespace ebb::cli {

// Bytes, bytes a second, seconds, and shares of 1.
nlohmann::ordered_json top_json(const Activity& activity);

}  // namespace ebb::cli
