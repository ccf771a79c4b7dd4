// What each thread calls first, through the calls of this library that the test is linked with.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <thread>

#include "calls/table.h"

namespace ebb::calls {
namespace {

std::atomic<int> g_begun{0};
thread_local bool t_begun = false;

void begins() {
  t_begun = true;
  ++g_begun;
}

class ThreadsTest : public testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "the thread sanitizer knows a thread only once its own function runs, which comes after ours";
#endif
    set_ = reinterpret_cast<SetThreadBegins>(::dlsym(RTLD_DEFAULT, kThreadBeginsName));
    ASSERT_NE(set_, nullptr);
    g_begun = 0;
    set_(&begins);
  }
  void TearDown() override {
    if (set_ != nullptr) set_(nullptr);
  }

  SetThreadBegins set_ = nullptr;
};

TEST_F(ThreadsTest, EachThreadCallsItBeforeAnythingElse) {
  for (int i = 0; i < 3; ++i) {
    bool begun = false;
    std::thread([&] { begun = t_begun; }).join();
    EXPECT_TRUE(begun);
  }
  EXPECT_EQ(g_begun, 3);
  EXPECT_FALSE(t_begun);
}

TEST_F(ThreadsTest, AThreadGetsItsArgumentAndReturnsItsValue) {
  int argument = 7;
  pthread_t thread{};
  ASSERT_EQ(::pthread_create(
                &thread, nullptr, [](void* given) { return given; }, &argument),
            0);
  void* returned = nullptr;
  ASSERT_EQ(::pthread_join(thread, &returned), 0);
  EXPECT_EQ(returned, &argument);
  EXPECT_EQ(g_begun, 1);
}

TEST_F(ThreadsTest, NoneDoesWhenItIsTakenBack) {
  set_(nullptr);
  std::thread([] {}).join();
  EXPECT_EQ(g_begun, 0);
}

}  // namespace
}  // namespace ebb::calls
