// The end of a process by _exit(): what was asked to come before it does, and the status stays.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "calls/table.h"

namespace ebb::calls {
namespace {

std::array<int, 2> g_ends;

TEST(CallsAtTheEnd, ComeBeforeExitAndKeepItsStatus) {
  const auto set = reinterpret_cast<SetBeforeEnd>(::dlsym(RTLD_DEFAULT, kBeforeEndName));
  ASSERT_NE(set, nullptr);
  for (const bool by_other_name : {false, true}) {
    ASSERT_EQ(::pipe(g_ends.data()), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      set([] { static_cast<void>(::write(g_ends[1], "x", 1)); });
      by_other_name ? ::_Exit(42) : ::_exit(42);
    }
    ::close(g_ends[1]);
    char seen = 0;
    EXPECT_EQ(::read(g_ends[0], &seen, 1), 1);
    ::close(g_ends[0]);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 42) << status;
  }
}

}  // namespace
}  // namespace ebb::calls
