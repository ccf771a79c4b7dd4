// What the runtime says to the user, and words of it that several messages have.
#pragma once

#include <string>

namespace ebb {

// A line, as printf() has it, straight to the descriptor. It never allocates, so any thread may call it, also the one
// that serves faults; what is too long is cut.
[[gnu::format(printf, 1, 2)]] void tell(const char* format, ...);

// The shell's limit on files, which ends flash as a full disk does: for after the name of flash; empty without one.
std::string file_limit_in_words();

}  // namespace ebb
