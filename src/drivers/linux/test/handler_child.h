// What the tests of our signal handlers share: each case runs in a child process, which it may end.
#pragma once

#include "base/test/in_a_child.h"

namespace ebb {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr const char* kNoHandlers = "a sanitizer has its own SIGSEGV handler";
#else
inline constexpr const char* kNoHandlers = nullptr;
#endif

// Runs it in a child, which ends so.
template <typename Run>
void ends(int how, Run run) {
  constexpr unsigned kSecondsMax = 60;
  EXPECT_EQ(in_a_child(kSecondsMax, run), how);
}

}  // namespace ebb
