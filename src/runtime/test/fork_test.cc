// fork() of a process with a runtime: the child sees the moment of the fork, byte for byte, whatever other threads do
// then and the parent does afterwards; and what it cannot have fails when it is touched. Each case is a process of its
// own; one that hangs is ended by an alarm.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/test/in_a_child.h"
#include "ebb/runtime.h"

namespace ebb {
namespace {

constexpr unsigned kSecondsMax = 60;
constexpr std::uint64_t kBudget = 24 * kMiB;
constexpr std::size_t kTensors = 24;
constexpr std::size_t kTensorBytes = 3 * kMiB;  // three times the budget
constexpr std::size_t kWords = kTensorBytes / 8;
constexpr int kWrong = 9;  // content

struct Parameters {
  const char* driver;
  std::uint64_t block_bytes;
  bool encrypt = false;
};

std::string title(const testing::TestParamInfo<Parameters>& info) {
  return std::string(info.param.driver) + "_" + std::to_string(info.param.block_bytes / kKiB) + "KiB" +
         (info.param.encrypt ? "_encrypted" : "");
}

std::shared_ptr<Runtime> open(const Parameters& parameters) {
  Options options;
  options.memory = kBudget;
  options.flash_bytes = 512 * kMiB;
  options.block_bytes = parameters.block_bytes;
  options.memory_driver = parameters.driver;
  options.encrypt = parameters.encrypt;
  try {
    return Runtime::open(options);
  } catch (const Error&) {
    ::_exit(kSkip);
  }
}

class World {
 public:
  explicit World(const Parameters& parameters) : runtime_(open(parameters)) {
    for (std::size_t i = 0; i < kTensors; ++i) {
      tensors_.push_back(static_cast<std::uint64_t*>(runtime_->allocate(kTensorBytes)));
      fill(i, 1);
    }
  }
  Runtime& runtime() { return *runtime_; }
  std::uint64_t* tensor(std::size_t i) const { return tensors_[i]; }
  void fill(std::size_t i, std::uint64_t round) {
    for (std::size_t w = 0; w < kWords; ++w) tensors_[i][w] = value(i, w, round);
  }
  bool holds(std::size_t i, std::uint64_t round) const {
    for (std::size_t w = 0; w < kWords; ++w) {
      if (tensors_[i][w] != value(i, w, round)) return false;
    }
    return true;
  }
  bool all_hold(std::uint64_t round) const {
    for (std::size_t i = 0; i < kTensors; ++i) {
      if (!holds(i, round)) return false;
    }
    return true;
  }

 private:
  static std::uint64_t value(std::size_t i, std::size_t w, std::uint64_t round) { return i << 40 | w << 8 | round; }
  std::shared_ptr<Runtime> runtime_;
  std::vector<std::uint64_t*> tensors_;
};

class Fork : public testing::TestWithParam<Parameters> {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "the thread sanitizer starts no threads after fork";
#endif
  }
  static void run(const std::function<int(World&)>& body) {
    expect_end(in_a_child(kSecondsMax, [&] {
      World world(GetParam());
      return body(world);
    }));
  }
};

// How a forked child of the world's process ended; `run` in it says whether all is right.
template <typename Run>
int fork_and(
    Run run, const std::function<void()>& meanwhile = [] {}) {
  const auto in_child = [&] {
    ::signal(SIGBUS, SIG_DFL);  // a sanitizer may have a handler
    return run();
  };
  return in_a_child(kSecondsMax, in_child, meanwhile);
}

bool failed_loudly(int ended) {
#if defined(__SANITIZE_ADDRESS__)
  constexpr int kItsHandlerEnds = 1;
  if (ended == kItsHandlerEnds || ended == kSignalled + SIGABRT) return true;  // abort_on_error
#endif
  return ended == kSignalled + SIGSEGV || ended == kSignalled + SIGBUS;
}

TEST_P(Fork, TheChildSeesWhatOtherThreadsHadStored) {
  run([](World& world) {
    std::atomic<std::uint64_t> stored{0};
    std::atomic<bool> ended{false};
    std::thread writer([&] {
      for (std::uint64_t n = 1; !ended; ++n) {
        for (std::size_t i = 0; i < 4; ++i) {
          std::atomic_ref<std::uint64_t>(world.tensor(i)[0]).store(n);
          std::atomic_ref<std::uint64_t>(world.tensor(i)[kWords - 1]).store(n);
        }
        stored = n;
      }
    });
    while (stored == 0) std::this_thread::yield();  // a sanitizer's locks must not be held over a fork, by who starts
    int result = 0;
    for (int round = 0; result == 0 && round < 10; ++round) {
      const auto in_child = [&] {
        const std::uint64_t n = stored;
        for (std::size_t i = 0; i < 4; ++i) {
          for (const std::size_t w : {std::size_t{0}, kWords - 1}) {
            const std::uint64_t seen = world.tensor(i)[w];
            if (seen != n && seen != n + 1) return 1;
          }
        }
        for (std::size_t i = 4; i < kTensors; ++i) {
          if (!world.holds(i, 1)) return 2;
        }
        return 0;
      };
      result = fork_and(in_child, [&] {
        for (std::size_t i = 4; i < 8; ++i) static_cast<void>(world.holds(i, 1));  // others come and go
      });
    }
    ended = true;
    writer.join();
    return result;
  });
}

TEST_P(Fork, WhatTheParentOverwritesAndFreesAtOnceIsTheChildsAsItWas) {
  run([](World& world) {
    const auto in_child = [&] {
      ::usleep(100'000);
      if (!world.all_hold(1)) return 1;
      for (std::size_t i = 0; i < kTensors; ++i) world.fill(i, 5);
      return world.all_hold(5) ? 0 : 2;
    };
    const int ended = fork_and(in_child, [&] {
      for (std::size_t i = kTensors; i-- > 0;) world.fill(i, 2);
      for (std::size_t i = 0; i < kTensors; i += 2) world.runtime().deallocate(world.tensor(i));
      for (std::size_t i = 0; i < kTensors; i += 2) {
        auto* const fresh = static_cast<std::uint64_t*>(world.runtime().allocate(kTensorBytes));
        for (std::size_t w = 0; w < kWords; ++w) fresh[w] = 99;
      }
    });
    if (ended != 0) return ended;
    for (std::size_t i = 1; i < kTensors; i += 2) {
      if (!world.holds(i, 2)) return 3;
    }
    return 0;
  });
}

TEST_P(Fork, ManyChildrenAtOnceAndAfterOneAnother) {
  run([](World& world) {
    std::vector<pid_t> children;
    for (std::uint64_t generation = 1; generation <= 3; ++generation) {
      for (int i = 0; i < 3; ++i) {
        const pid_t child = ::fork();
        if (child == 0) {
          ::alarm(kSecondsMax);
          ::_exit(world.all_hold(generation) ? 0 : 1);
        }
        children.push_back(child);
      }
      for (std::size_t i = 0; i < kTensors; ++i) world.fill(i, generation + 1);
    }
    for (const pid_t child : children) {
      if (end_of(child) != 0) return 1;
    }
    return world.all_hold(4) ? 0 : 2;
  });
}

TEST_P(Fork, AChildThatEndsOrBecomesAnotherProgramLeavesNothingBehind) {
  run([](World& world) {
    for (int round = 0; round < 10; ++round) {
      if (fork_and([] { return 0; }, [&] { world.fill(static_cast<std::size_t>(round), 7); }) != 0) return 1;
      if (!world.holds(static_cast<std::size_t>(round), 7)) return 2;
      world.fill(static_cast<std::size_t>(round), 1);
    }
    if (!world.all_hold(1)) return 3;
    for (std::size_t i = 0; i < kTensors; ++i) world.runtime().deallocate(world.tensor(i));
    for (int tries = 0; tries < 100; ++tries) {
      if (world.runtime().stats().flash_bytes == 0) return 0;
      ::usleep(50'000);
    }
    return 4;
  });
}

TEST_P(Fork, AGrandchildSeesWhatTheChildHadAtItsFork) {
  run([](World& world) {
    return fork_and([&] {
      world.fill(3, 8);
      const int ended = fork_and([&] { return world.holds(3, 8) && world.holds(9, 1) ? 0 : 1; });
      return ended != 0 ? 1 : world.holds(3, 8) && world.all_hold(1) == false && world.holds(4, 1) ? 0 : 2;
    });
  });
}

TEST_P(Fork, WhatAChildProtectsIsProtected) {
  run([](World& world) {
    const int ended = fork_and([&] {
      if (!world.holds(2, 1)) return kWrong;
      ::mprotect(world.tensor(2), kTensorBytes, PROT_READ);
      if (!world.holds(2, 1)) return kWrong;
      world.fill(2, 2);
      return 0;
    });
    return failed_loudly(ended) && world.all_hold(1) ? 0 : ended + 1;
  });
}

// What cannot leave its place is the child's by copy-on-write.
TEST_P(Fork, LockedMemoryIsTheChildsAsItWas) {
  run([](World& world) {
    for (std::size_t i = 0; i < 2; ++i) {
      static_cast<void>(world.holds(i, 1));
      if (::mlock(world.tensor(i), kTensorBytes) != 0) return kSkip;
    }
    world.fill(0, 2);
    const int ended = fork_and(
        [&] {
          ::usleep(50'000);
          return world.holds(0, 2) && world.holds(1, 1) && world.holds(2, 1) ? 0 : 1;
        },
        [&] {
          world.fill(0, 3);
          world.fill(1, 3);
        });
    return ended != 0 ? ended : world.holds(0, 3) && world.holds(1, 3) ? 0 : 2;
  });
}

TEST_P(Fork, WithoutADescriptorTheChildHasItsMemoryOrFailsWhenItTouchesIt) {
  run([](World& world) {
    for (const int spare : {0, 1, 2, 3}) {
      rlimit before{};
      ::getrlimit(RLIMIT_NOFILE, &before);
      const int next = ::dup(0);
      ::close(next);
      const rlimit tight{static_cast<rlim_t>(next + spare), before.rlim_max};
      ::setrlimit(RLIMIT_NOFILE, &tight);
      const int ended = fork_and([&] { return world.all_hold(1) ? 0 : kWrong; }, [&] { world.fill(5, 1); });
      ::setrlimit(RLIMIT_NOFILE, &before);
      if (ended != 0 && !failed_loudly(ended)) return 10 + spare;
      if (!world.all_hold(1)) return 2;
    }
    return 0;
  });
}

TEST_P(Fork, WithoutAThreadTheChildFailsWhenItTouchesItsMemory) {
  run([](World& world) {
    // fork() makes the older call.
    if (!forbid(SYS_clone3, EAGAIN)) return kSkip;
    const int ended = fork_and([&] { return world.all_hold(1) ? 0 : kWrong; });
    if (ended != 0 && !failed_loudly(ended)) return ended;
    if (fork_and([] { return 0; }) != 0) return 2;  // who touches nothing lives
    return world.all_hold(1) ? 0 : 3;
  });
}

TEST_P(Fork, AChildWhoseParentWasKilledHasItsMemoryOrFailsWhenItTouchesIt) {
  for (const bool at_once : {true, false}) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const int ended = in_a_child(kSecondsMax, [&] {
      World world(GetParam());
      for (std::size_t i = 0; i < kTensors; ++i) world.fill(i, 2);
      const pid_t child = ::fork();
      if (child == 0) {
        ::alarm(kSecondsMax);
        ::usleep(50'000);
        const int judged = fork_and([&] { return world.all_hold(2) ? 0 : kWrong; });
        const char answer = judged == 0 ? 'r' : failed_loudly(judged) ? 'f' : 'w';
        ::_exit(::write(ends[1], &answer, 1) == 1 ? 0 : 1);
      }
      // In order, or not.
      if (at_once) ::kill(::getpid(), SIGKILL);
      return 0;
    });
    ::close(ends[1]);
    char answer = 's';
    static_cast<void>(::read(ends[0], &answer, 1));
    ::close(ends[0]);
    if (ended == kSkip) GTEST_SKIP() << "not to be had on this machine";
    EXPECT_NE(answer, 'w');
    EXPECT_NE(answer, 's');
  }
}

// On a busy machine, where a thread can be amid its beginning for long: a sanitizer holds locks there.
TEST_P(Fork, AtOnceAfterARuntimeIsOpened) {
  expect_end(in_a_child(kSecondsMax, [] {
    constexpr int kRounds = 20;
    constexpr int kOthers = 4;
    std::atomic<int> busy{0};
    std::atomic<bool> over{false};
    std::vector<std::thread> others;
    for (int i = 0; i < kOthers; ++i) {
      others.emplace_back([&] {
        for (++busy; !over;) continue;
      });
    }
    while (busy < kOthers) std::this_thread::yield();
    int result = 0;
    for (int round = 0; result == 0 && round < kRounds; ++round) {
      const auto runtime = open(GetParam());
      auto* const words = static_cast<std::uint64_t*>(runtime->allocate(kTensorBytes));
      words[0] = 7;
      result = in_a_child(kSecondsMax / 2, [&] { return words[0] == 7 ? 0 : kWrong; });
    }
    over = true;
    for (std::thread& other : others) other.join();
    return result;
  }));
}

std::function<void()> g_prepare;

// As OpenBLAS does, which joins its workers before a fork: one of them may wait for a fault.
TEST_P(Fork, ThreadsThatOthersWaitForBeforeAForkAreServed) {
  expect_end(in_a_child(kSecondsMax, [] {
    ::pthread_atfork([] { g_prepare(); }, nullptr, nullptr);
    g_prepare = [] {};
    World world(GetParam());
    std::atomic<int> wrong{0};
    g_prepare = [&] {
      std::thread worker([&] {
        for (std::size_t i = 0; i < kTensors; ++i) wrong += world.holds(i, 1) ? 0 : 1;
      });
      worker.join();
    };
    const int result = fork_and([&] { return world.all_hold(1) ? 0 : kWrong; });
    return result != 0 ? result : wrong.load();
  }));
}

INSTANTIATE_TEST_SUITE_P(Drivers, Fork,
                         testing::Values(Parameters{"move", 64 * kKiB}, Parameters{"move", 2 * kMiB},
                                         Parameters{"remap", 64 * kKiB}, Parameters{"remap", 2 * kMiB},
                                         Parameters{"move", 64 * kKiB, true}, Parameters{"remap", 64 * kKiB, true}),
                         title);

}  // namespace
}  // namespace ebb
