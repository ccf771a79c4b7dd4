// The runtime's own threads: they run no handler of the program's, which could wait for what they are to do; and where
// none can be started, the program hears it.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/internal_thread.h"
#include "base/test/in_a_child.h"
#include "ebb/runtime.h"

namespace ebb {
namespace {

constexpr unsigned kSecondsMax = 30;
constexpr std::uint64_t kBlock = 64 * kKiB;
constexpr std::uint64_t kBudget = 8 * kMiB;
constexpr std::uint64_t kBlocks = 512;  // four times the budget

bool blocks(const sigset_t& mask, int signal) { return ::sigismember(&mask, signal) == 1; }

TEST(InternalThread, BlocksWhatItDoesNotRaiseItself) {
  sigset_t before, inside, after;
  ::pthread_sigmask(SIG_BLOCK, nullptr, &before);
  std::thread thread;
  ASSERT_EQ(start_internal_thread(
                "a-thread", [&] { ::pthread_sigmask(SIG_BLOCK, nullptr, &inside); }, thread),
            Status::kOk);
  thread.join();
  ::pthread_sigmask(SIG_BLOCK, nullptr, &after);
  for (const int signal : {SIGUSR1, SIGALRM, SIGPROF, SIGCHLD, SIGTERM, SIGINT}) EXPECT_TRUE(blocks(inside, signal));
  for (const int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE}) EXPECT_FALSE(blocks(inside, signal));
  for (int signal = 1; signal < SIGRTMAX; ++signal) EXPECT_EQ(blocks(before, signal), blocks(after, signal)) << signal;
}

Options options_of(const std::string& memory_driver, const std::string& flash_driver) {
  Options options;
  options.memory = kBudget;
  options.flash_bytes = 256 * kMiB;
  options.block_bytes = kBlock;
  options.memory_driver = memory_driver;
  options.flash_driver = flash_driver;
  return options;
}

int run_without_threads() {
  for (const int call : {SYS_clone, SYS_clone3}) {
    if (!forbid(call, EAGAIN)) return kSkip;
  }
  std::thread thread;
  if (start_internal_thread(
          "a-thread", [] {}, thread) != Status::kUnsupported ||
      thread.joinable())
    return 1;
  sigset_t mask;
  ::pthread_sigmask(SIG_BLOCK, nullptr, &mask);
  if (blocks(mask, SIGUSR1)) return 2;
  for (const char* const driver : {"auto", "remap"}) {
    try {
      static_cast<void>(Runtime::open(options_of(driver, "auto")));
      return 3;
    } catch (const Error& error) {
      if (std::string(error.what()).find("thread") == std::string::npos) return 4;
    }
  }
  return 0;
}

TEST(InternalThreads, WhereThereAreNoneTheProgramHearsIt) { expect_end(in_a_child(kSecondsMax, run_without_threads)); }

volatile const char* g_data = nullptr;
std::atomic<std::uint64_t> g_handled{0};

void touch_something(int) {
  const std::uint64_t n = g_handled.fetch_add(1);
  static_cast<void>(g_data[n * 37 % kBlocks * kBlock]);
}

// A process gets signals whose handler touches absent memory. One of its threads lets them through and does nothing
// else; another computes; the rest are the runtime's.
int run_signal_storm(const Options& options) {
  std::shared_ptr<Runtime> runtime;
  try {
    runtime = Runtime::open(options);
  } catch (const Error&) {
    return kSkip;
  }
  auto* const data = static_cast<char*>(runtime->allocate(kBlocks * kBlock));
  for (std::uint64_t i = 0; i < kBlocks; ++i) data[i * kBlock] = static_cast<char>(i % 100);
  g_data = data;
  struct sigaction action {};
  action.sa_handler = touch_something;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGUSR1, &action, nullptr);
  std::atomic<bool> ended{false};
  std::thread receiver([&] {
    while (!ended) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  sigset_t only;
  ::sigemptyset(&only);
  ::sigaddset(&only, SIGUSR1);
  ::pthread_sigmask(SIG_BLOCK, &only, nullptr);
  std::thread computer([&] {
    for (std::uint64_t i = 0; !ended; i = (i + 1) % kBlocks) {
      const Access access{data + i * kBlock, kBlock, data, 0, false, false};
      const std::uint64_t ticket = runtime->announce(1, {&access, 1});
      if (data[i * kBlock] != static_cast<char>(i % 100)) ::_exit(1);
      runtime->retire(ticket);
    }
  });
  while (g_handled < 600) {
    ::kill(::getpid(), SIGUSR1);
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  ended = true;
  computer.join();
  receiver.join();
  return 0;
}

TEST(InternalThreads, AHandlerThatTouchesAbsentMemoryNeverHangs) {
  for (const std::string memory : {"move", "remap"}) {
#if defined(__SANITIZE_THREAD__)
    if (memory == "remap") continue;  // the sanitizer blocks all signals in a handler, and so the remap driver's
#endif
    for (const char* const flash : {"uring", "threads"}) {
      const int ended = in_a_child(kSecondsMax, [&] { return run_signal_storm(options_of(memory, flash)); });
      EXPECT_TRUE(ended == 0 || ended == kSkip) << ended << " with " << memory << ", " << flash;
    }
  }
}

}  // namespace
}  // namespace ebb
