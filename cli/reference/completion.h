// Completion scripts for shells. Stateless; any thread.
#pragma once

#include <string>

#include "reference/interface.h"

namespace ebb::cli {

std::string bash_completion(const Interface& interface);
std::string zsh_completion(const Interface& interface);
std::string fish_completion(const Interface& interface);

}  // namespace ebb::cli
