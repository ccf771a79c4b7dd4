// Where Ebbtide's Python package and its start-up hook lie, and how a Python is made to find them. Any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ebb::cli {

// $EBB_PYTHON_DIR; else where an installation puts it, seen from this executable; else the source tree this executable
// was built from. Throws Error with the remedy when the hook is not there.
std::string python_directory();

// The value of PYTHONPATH that activates the hook, ahead of what the user has set.
std::string python_path_with_hook(const std::string& directory);

// Places given relative to the directory of this executable, with colons between them.
std::vector<std::string> from_executable(std::string_view relative);

// The directory that holds this executable, symbolic links followed; empty when the kernel does not say.
std::string executable_directory();

}  // namespace ebb::cli
