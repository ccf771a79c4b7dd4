// Signal stacks for every thread of a process.
#include "drivers/linux/process/thread_stacks.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "drivers/linux/process/signal_chain.h"
#include "handler_child.h"

namespace ebb {
namespace {

bool has_stack() {
  stack_t now{};
  return ::sigaltstack(nullptr, &now) == 0 && (now.ss_flags & SS_DISABLE) == 0;
}

// A thread that waits until it is told to go, and tells whether it had a stack then.
class Waiting {
 public:
  explicit Waiting(std::function<void()> first)
      : thread_([this, first = std::move(first)] {
          first();
          std::unique_lock<std::mutex> lock(mutex_);
          begun_ = true;
          changed_.notify_all();
          changed_.wait(lock, [&] { return told_; });
          has_ = has_stack();
        }) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return begun_; });
  }
  bool had_one() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      told_ = true;
      changed_.notify_all();
    }
    thread_.join();
    return has_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool begun_ = false, told_ = false, has_ = false;
  std::thread thread_;
};

void block(int signal) {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, signal);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

// The caller, threads that were there, and those that come.
void all_have_stacks() {
  ASSERT_FALSE(has_stack());
  Waiting before([] {});
  Waiting without_faults([] { block(SIGSEGV); });
  give_threads_signal_stacks();
  EXPECT_TRUE(threads_have_signal_stacks());
  Waiting after([] {});
  EXPECT_TRUE(before.had_one());
  EXPECT_FALSE(without_faults.had_one()) << "it dies of any touch, and is left alone";
  EXPECT_TRUE(after.had_one());
  EXPECT_TRUE(has_stack());
  EXPECT_FALSE(has_handler(current_action(SIGURG)));
}

// A thread that computes is not interrupted, and one that takes no signal is not reached: neither is waited for long.
void who_is_not_reached_is_told() {
  std::atomic<bool> computes{false}, over{false};
  std::thread computing([&] {
    while (!over) computes = true;
    EXPECT_FALSE(has_stack());
  });
  while (!computes) std::this_thread::yield();
  Waiting before([] {});
  Waiting deaf([] { block(SIGURG); });
  give_threads_signal_stacks();
  EXPECT_FALSE(threads_have_signal_stacks());
  EXPECT_TRUE(before.had_one());
  EXPECT_FALSE(deaf.had_one());
  over = true;
  computing.join();
}

void a_program_that_uses_the_signal_keeps_it() {
  struct sigaction theirs {};
  theirs.sa_handler = [](int) { ADD_FAILURE() << "nobody has sent one"; };
  ASSERT_EQ(::sigaction(SIGURG, &theirs, nullptr), 0);
  Waiting before([] {});
  give_threads_signal_stacks();
  EXPECT_FALSE(threads_have_signal_stacks());
  EXPECT_FALSE(before.had_one());
  EXPECT_EQ(current_action(SIGURG).sa_handler, theirs.sa_handler);
}

// It is done once in a process: so in children, and by its name before other tests do it in the parent.
void runs_in_a_child(void (*test)()) {
  ends(0, [&] {
    test();
    return testing::Test::HasFailure() ? 1 : 0;
  });
}

TEST(ThreadStacksDeathTest, EachThreadGetsOne) {
  if (kNoHandlers != nullptr) GTEST_SKIP() << kNoHandlers;
  runs_in_a_child(&all_have_stacks);
}

TEST(ThreadStacksDeathTest, WhoIsNotReachedIsTold) {
  if (kNoHandlers != nullptr) GTEST_SKIP() << kNoHandlers;
  runs_in_a_child(&who_is_not_reached_is_told);
}

TEST(ThreadStacksDeathTest, AProgramThatUsesTheSignalKeepsIt) {
  if (kNoHandlers != nullptr) GTEST_SKIP() << kNoHandlers;
  runs_in_a_child(&a_program_that_uses_the_signal_keeps_it);
}

}  // namespace
}  // namespace ebb
