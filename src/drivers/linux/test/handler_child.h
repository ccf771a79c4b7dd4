// What the tests of our signal handlers share: each case runs in a child process, which it may end.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ebb {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr const char* kNoHandlers = "a sanitizer has its own SIGSEGV handler";
#else
inline constexpr const char* kNoHandlers = nullptr;
#endif
inline constexpr unsigned kSecondsMax = 60;

// The wait status of a child that does this and exits with what it returns.
template <typename Run>
int status_of(Run run) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(kSecondsMax);
    ::_exit(run());
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

inline bool killed_by(int status, int signal) { return WIFSIGNALED(status) && WTERMSIG(status) == signal; }

}  // namespace ebb
