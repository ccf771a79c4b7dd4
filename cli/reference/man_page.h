// Manual pages in the macros of man(7). Stateless; any thread.
#pragma once

#include <string>

#include "reference/interface.h"

namespace ebb::cli {

// That of one command, ebb-COMMAND(1).
std::string man_page(const Interface& interface, const CommandDescription& command, const std::string& version);
// That of the program, ebb(1), with a list of the commands.
std::string man_page(const Interface& interface, const std::string& version);

}  // namespace ebb::cli
