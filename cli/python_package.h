// Where Ebbtide's Python package and its start-up hook lie, and how a Python is made to find them. Any thread.
#pragma once

#include <string>

namespace ebb::cli {

// $EBB_PYTHON_DIR; else ../share/ebbtide/python beside the directory of this executable, where an installation puts it;
// else the source tree this executable was built from. Throws Error with the remedy when the hook is not there.
std::string python_directory();

// The value of PYTHONPATH that activates the hook, ahead of what the user has set.
std::string python_path_with_hook(const std::string& directory);

// The directory that holds this executable, symbolic links followed; empty when the kernel does not say.
std::string executable_directory();

}  // namespace ebb::cli
