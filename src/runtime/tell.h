// tell(): a line for the user, as printf() has it, straight to the descriptor. It never allocates, so any thread may
// call it, also the one that serves faults; what is too long is cut.
#pragma once

namespace ebb {

[[gnu::format(printf, 1, 2)]] void tell(const char* format, ...);

}  // namespace ebb
