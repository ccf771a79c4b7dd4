// What `ebb fuzz` found, for people and for programs. Stateless; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fuzz/campaign.h"

namespace ebb::cli {

// Programs from files.
struct Replay {
  std::uint64_t programs = 0;
  std::vector<Failure> failures;
};

std::string to_text(const Campaign& campaign);
std::string to_json(const Campaign& campaign);
std::string to_text(const Replay& replay);
std::string to_json(const Replay& replay);

}  // namespace ebb::cli
