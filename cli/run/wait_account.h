// The account of waits in the summary of a run: who waited, for what, and why. Stateless.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "ebb/waits/waits.h"

namespace ebb::cli {

// All of it, in seconds and bytes.
nlohmann::ordered_json waits_json(const WaitReport& waits);

// The rows of the table: causes, kinds of tensors, and the five modules and operators that waited most.
void wait_rows(const WaitReport& waits, const std::function<void(const char* label, const std::string& value)>& row);

}  // namespace ebb::cli
