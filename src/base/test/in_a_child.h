// For tests of what ends, or limits, a whole process: a child that runs a function, and calls that fail in it.
#pragma once

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstddef>

// There where coverage is counted (tools/coverage), which _exit() would forget.
extern "C" __attribute__((weak)) void __gcov_dump();

namespace ebb {

constexpr int kSkip = 77;
constexpr int kSignalled = 1000;

// How the child ended: with 0, the number of what went wrong, kSkip, or kSignalled and the signal; SIGALRM: it hung.
inline int end_of(pid_t child) {
  int status = -1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : kSignalled + WTERMSIG(status);
}

// The same of a new one. The parent does something else meanwhile.
template <typename Run, typename Meanwhile>
int in_a_child(unsigned seconds_max, Run run, Meanwhile meanwhile) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(seconds_max);
    const int code = run();
    if (__gcov_dump != nullptr) __gcov_dump();
    ::_exit(code);
  }
  if (child < 0) return kSkip;
  meanwhile();
  return end_of(child);
}
template <typename Run>
int in_a_child(unsigned seconds_max, Run run) {
  return in_a_child(seconds_max, run, [] {});
}

// The end of a test of which a child was the most.
inline void expect_end(int ended, int expected = 0) {
  if (ended == kSkip) GTEST_SKIP() << "not to be had on this machine";
  EXPECT_EQ(ended, expected);
}

// The system call fails with the error, for this thread and those that it starts. False: not to be had here.
inline bool forbid(int call, int error) {
  std::array<sock_filter, 4> filter{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(call), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog program{filter.size(), filter.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

}  // namespace ebb
