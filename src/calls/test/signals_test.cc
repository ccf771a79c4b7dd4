// A kept handler stays the first, whatever the program installs, and the program is told what it has installed itself.
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>

#include "absent_memory.h"
#include "calls/table.h"

extern "C" ebb::calls::SetAction ebb_calls_keep_handler(int signal, ebb::calls::Replace replace);

namespace ebb::calls {
namespace {

constexpr int kSignal = SIGUSR2;
struct sigaction g_programs {};
int g_ours_called = 0;

void ours(int) {
  ++g_ours_called;
  if (g_programs.sa_handler != SIG_DFL && g_programs.sa_handler != SIG_IGN) g_programs.sa_handler(kSignal);
}

int replace(const struct sigaction* action, struct sigaction* before) {
  if (before != nullptr) *before = g_programs;
  if (action != nullptr) g_programs = *action;
  return 0;
}

TEST(KeptHandler, StaysTheFirst) {
  if (kNoHandlers != nullptr) GTEST_SKIP() << kNoHandlers;
  static int programs_called = 0;
  struct sigaction action {};
  action.sa_handler = &ours;
  ASSERT_EQ(::sigaction(kSignal, &action, nullptr), 0);
  const SetAction set = ebb_calls_keep_handler(kSignal, &replace);
  ebb_calls_keep_handler(kSignal, [](const struct sigaction*, struct sigaction*) -> int { std::abort(); });

  struct sigaction seen {};
  ASSERT_EQ(::sigaction(kSignal, nullptr, &seen), 0);
  EXPECT_EQ(seen.sa_handler, SIG_DFL);
  action.sa_handler = [](int) { ++programs_called; };
  ASSERT_EQ(::sigaction(kSignal, &action, nullptr), 0);
  ::raise(kSignal);
  EXPECT_EQ(g_ours_called, 1);
  EXPECT_EQ(programs_called, 1);
  EXPECT_EQ(::signal(kSignal, SIG_IGN), action.sa_handler);
  ::raise(kSignal);
  EXPECT_EQ(g_ours_called, 2);
  EXPECT_EQ(programs_called, 1);
  EXPECT_EQ(::signal(kSignal, SIG_DFL), SIG_IGN);

  ASSERT_EQ(set(kSignal, nullptr, &seen), 0);
  EXPECT_EQ(seen.sa_handler, &ours) << "what the kernel has";
  // Others are the program's.
  ASSERT_EQ(::sigaction(SIGUSR1, &action, nullptr), 0);
  ASSERT_EQ(set(SIGUSR1, nullptr, &seen), 0);
  EXPECT_EQ(seen.sa_handler, action.sa_handler);
}

}  // namespace
}  // namespace ebb::calls
