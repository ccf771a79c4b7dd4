// Whether a program will load libebb_calls.so, by its file alone. Before it is started; main thread.
#pragma once

#include <string>

namespace ebb::cli {

// Why it will not, in words for the user; empty if it will, or nobody can tell. Of a script, that is its interpreter.
std::string why_not_loaded(const std::string& command);

}  // namespace ebb::cli
