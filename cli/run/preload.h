// Where libebb_calls.so (src/calls) lies, and how the program is made to load it. Any thread.
#pragma once

#include <string>

namespace ebb::cli {

// Where an installation puts it, seen from this executable; else where it was built. Empty where it is not, or where
// LD_PRELOAD cannot name it: with a space or a colon in the name.
std::string calls_library();

// The value of LD_PRELOAD that loads it, after what the user loads: some of that insists on being the first.
std::string preload_with(const std::string& library);
// libebb_host.so beside it, empty if it is not there or files are left to the kernel (EBB_MAP_FILES=0).
std::string host_library(const std::string& calls);

}  // namespace ebb::cli
