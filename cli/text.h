// How the commands write for people. Stateless; any thread.
#pragma once

#include <string>

namespace ebb::cli {

// "1.23 ms", "45.6 s", "7890 s": three significant digits, and never an exponent.
std::string format_seconds(double seconds);

// Whether to colour what goes to `fd`: a terminal, and the user did not set NO_COLOR.
bool wants_colour(int fd);

}  // namespace ebb::cli
