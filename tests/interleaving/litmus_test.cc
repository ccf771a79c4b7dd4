// The Explorer finds what C++ allows, and nothing else: the classic tests of memory models, each with the orders that
// forbid an outcome and with those that do not.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "base/rng.h"
#include "interleaving/explorer/explorer.h"

namespace ebb::interleaving {
namespace {

using std::memory_order;
constexpr memory_order kRelaxed = std::memory_order_relaxed, kAcquire = std::memory_order_acquire;
constexpr memory_order kRelease = std::memory_order_release, kSequential = std::memory_order_seq_cst;

struct Words {
  std::atomic<int> x{0}, y{0};
  int plain = 0;
  std::array<int, 4> read{};  // by the threads
};
using Outcome = std::array<int, 4>;

// All that the threads of a test may read. `make`: threads over the words.
template <typename Make>
std::set<Outcome> outcomes(Make make, Findings* findings = nullptr, const Options& options = {}) {
  std::set<Outcome> seen;
  const auto scenario = [&] {
    auto words = std::make_shared<Words>();
    return Scenario{make(words), [=, &seen] { seen.insert(words->read); }};
  };
  const Findings found = explore(scenario, options);
  EXPECT_EQ(found.failure, "");
  EXPECT_TRUE(found.all);
  if (findings != nullptr) *findings = found;
  return seen;
}
using Threads = std::vector<std::function<void()>>;
using Shared = std::shared_ptr<Words>;

Findings pass_message(memory_order out, memory_order in, bool fences) {
  return explore([=] {
    auto words = std::make_shared<Words>();
    const auto writer = [=] {
      words->plain = 1;
      if (fences) std::atomic_thread_fence(out);
      words->x.store(1, fences ? kRelaxed : out);
    };
    const auto reader = [=] {
      const bool there = words->x.load(fences ? kRelaxed : in) == 1;
      if (there && fences) std::atomic_thread_fence(in);
      if (there) require(words->plain == 1, "what was written before is there");
    };
    return Scenario{{writer, reader}, {}};
  });
}

TEST(Litmus, WhatIsPassedByAReleaseIsThereForWhoAcquires) {
  for (const bool fences : {false, true}) {
    const Findings right = pass_message(kRelease, kAcquire, fences);
    EXPECT_EQ(right.failure, "");
    EXPECT_TRUE(right.all);
    EXPECT_NE(pass_message(kRelaxed, kAcquire, fences).failure.find("data race"), std::string::npos);
    EXPECT_NE(pass_message(kRelease, kRelaxed, fences).failure.find("data race"), std::string::npos);
  }
}

// Both may miss the other's store, but for sequentially consistent accesses, or fences.
TEST(Litmus, StoreBuffering) {
  const auto buffered = [](memory_order out, memory_order in, bool fences) {
    const auto seen = outcomes([=](const Shared& words) {
      const auto thread = [=](std::atomic<int>& mine, std::atomic<int>& other, int& read) {
        mine.store(1, out);
        if (fences) std::atomic_thread_fence(kSequential);
        read = other.load(in);
      };
      return Threads{[=] { thread(words->x, words->y, words->read[0]); },
                     [=] { thread(words->y, words->x, words->read[1]); }};
    });
    EXPECT_TRUE(seen.contains({0, 1}) && seen.contains({1, 0}) && seen.contains({1, 1}));
    return seen.contains({0, 0});
  };
  EXPECT_TRUE(buffered(kRelaxed, kRelaxed, false));
  EXPECT_TRUE(buffered(kRelease, kAcquire, false));
  EXPECT_TRUE(buffered(kSequential, kAcquire, false));
  EXPECT_FALSE(buffered(kSequential, kSequential, false));
  EXPECT_FALSE(buffered(kRelaxed, kRelaxed, true));
}

// Independent reads of independent writes: two readers may see them in different orders.
TEST(Litmus, ReadersMayDisagreeOnTheOrderOfTwoWriters) {
  const auto disagree = [](memory_order out, memory_order in) {
    const auto seen = outcomes([=](const Shared& words) {
      const auto read = [=](std::atomic<int>& one, std::atomic<int>& two, int* to) {
        to[0] = one.load(in);
        to[1] = two.load(in);
      };
      return Threads{[=] { words->x.store(1, out); }, [=] { words->y.store(1, out); },
                     [=] { read(words->x, words->y, &words->read[0]); },
                     [=] { read(words->y, words->x, &words->read[2]); }};
    });
    return seen.contains({1, 0, 1, 0});
  };
  EXPECT_TRUE(disagree(kRelease, kAcquire));
  EXPECT_FALSE(disagree(kSequential, kSequential));
}

// One object alone is always coherent; an update never misses the newest value.
TEST(Litmus, OneObjectIsReadForwardsAndCountedRight) {
  const auto seen = outcomes([](const Shared& words) {
    const auto count = [=] { words->x.fetch_add(1, kRelaxed); };
    return Threads{count, count, [=] {
                     words->read[0] = words->x.load(kRelaxed);
                     words->read[1] = words->x.load(kRelaxed);
                   }};
  });
  const std::set<Outcome> forwards{{0, 0}, {0, 1}, {0, 2}, {1, 1}, {1, 2}, {2, 2}};
  EXPECT_EQ(seen, forwards);
}

// What an update writes goes on with the release that it has read, a store of another thread's does not.
TEST(Litmus, AReleaseSequenceGoesThroughUpdates) {
  const auto goes = [](bool update) {
    return explore([=] {
      auto words = std::make_shared<Words>();
      const auto writer = [=] {
        words->plain = 1;
        words->x.store(1, kRelease);
      };
      const auto between = [=] {
        if (update) {
          int one = 1;
          words->x.compare_exchange_strong(one, 2, kRelaxed);
        } else if (words->x.load(kRelaxed) == 1) {
          words->x.store(2, kRelaxed);
        }
      };
      const auto reader = [=] {
        if (words->x.load(kAcquire) == 2) require(words->plain == 1, "what was written before is there");
      };
      return Scenario{{writer, between, reader}, {}};
    });
  };
  EXPECT_EQ(goes(true).failure, "");
  EXPECT_NE(goes(false).failure.find("data race"), std::string::npos);
}

// Peterson's lock needs each thread's flag to be seen by the other before it looks.
Findings peterson(memory_order order, memory_order in) {
  struct Peterson : Words {
    std::atomic<int> turn{0};
  };
  return explore([=] {
    auto words = std::make_shared<Peterson>();
    const auto thread = [=](std::atomic<int>& mine, std::atomic<int>& other, int me) {
      mine.store(1, order);
      words->turn.store(1 - me, order);
      while (other.load(in) == 1 && words->turn.load(in) == 1 - me) {
      }
      ++words->plain;
      mine.store(0, kRelease);
    };
    return Scenario{{[=] { thread(words->x, words->y, 0); }, [=] { thread(words->y, words->x, 1); }},
                    [=] { require(words->plain == 2, "one at a time"); }};
  });
}

TEST(Litmus, PetersonsLockNeedsSequentialConsistency) {
  const Findings right = peterson(kSequential, kSequential);
  EXPECT_EQ(right.failure, "");
  EXPECT_TRUE(right.all);
  EXPECT_NE(peterson(kRelease, kAcquire).failure.find("data race"), std::string::npos);
}

TEST(Litmus, ALockThatLooksBeforeItTakesIsNone) {
  const Findings broken = explore([] {
    auto words = std::make_shared<Words>();
    const auto thread = [=] {
      while (words->x.load(kAcquire) == 1) {
      }
      words->x.store(1, kRelaxed);
      ++words->plain;
      words->x.store(0, kRelease);
    };
    return Scenario{{thread, thread}, {}};
  });
  EXPECT_NE(broken.failure.find("data race"), std::string::npos);
}

TEST(Litmus, AMutexOrdersWhatItGuardsAndTwoCanHang) {
  struct Locks : Words {
    std::mutex one, two;
  };
  const auto both = [](bool crosswise) {
    return explore([=] {
      auto words = std::make_shared<Locks>();
      const auto thread = [=](std::mutex& first, std::mutex& second) {
        const std::lock_guard outer(first);
        const std::lock_guard inner(second);
        ++words->plain;
      };
      return Scenario{{[=] { thread(words->one, words->two); },
                       [=] { crosswise ? thread(words->two, words->one) : thread(words->one, words->two); }},
                      [=] { require(words->plain == 2, "both have counted"); }};
    });
  };
  EXPECT_EQ(both(false).failure, "");
  EXPECT_NE(both(true).failure.find("no thread can go on"), std::string::npos);
}

TEST(Litmus, AWaitThatNobodyEndsIsFound) {
  const Findings waits = explore([] {
    auto words = std::make_shared<Words>();
    return Scenario{{[=] {
                       while (words->x.load(kAcquire) == 0) {
                       }
                     },
                     [=] { words->y.store(1, kRelease); }},
                    {}};
  });
  EXPECT_NE(waits.failure.find("no thread can go on"), std::string::npos);
}

// Steps that do not depend on each other are tried in one order, those that do in each: of n threads that each write a
// word of their own there is one execution, of n that write the same one n!.
TEST(Explorer, OrdersThatDifferInNothingAreTriedOnce) {
  const auto executions = [](bool same) {
    Findings findings;
    outcomes(
        [=](const Shared& words) {
          const auto write = [=](std::atomic<int>& word) { word.store(1, kRelaxed); };
          return Threads{[=] { write(words->x); }, [=] { write(same ? words->x : words->y); },
                         [=] { write(words->x); }};
        },
        &findings);
    return findings.executions - findings.cut;
  };
  EXPECT_EQ(executions(true), 6u);
  EXPECT_EQ(executions(false), 2u);
}

// One step of a program by lot, on one of two words.
struct RandomStep {
  int what = 0;
  bool on_x = true;
  memory_order order = kRelaxed;
};

// Each at a place of its own in the code: who reads the same again and again at one place is taken for one who waits.
template <int number>
void perform(const RandomStep& step, const Shared& words, int& read) {
  asm volatile("" : : "i"(number));  // else the compiler makes one of them
  std::atomic<int>& word = step.on_x ? words->x : words->y;
  const bool strong = step.order != kRelaxed;
  const memory_order one_way = step.order == kSequential ? kSequential : strong ? kAcquire : kRelaxed;
  switch (step.what) {
    case 0:
      word.store(word.load(kRelaxed) + 1, step.order == kSequential ? kSequential : strong ? kRelease : kRelaxed);
      break;
    case 1: word.fetch_add(10, strong ? step.order : kRelaxed); break;
    case 2: std::atomic_thread_fence(strong ? step.order : kSequential); break;
    default: read = read * 100 + word.load(one_way); break;
  }
}

// Nothing that a thread can read is lost by trying less.
TEST(Explorer, TryingLessLosesNothing) {
  constexpr int kPrograms = 25;
  std::uint64_t tried = 0, without = 0;
  for (int program = 0; program < kPrograms; ++program) {
    Rng rng(static_cast<std::uint64_t>(program));
    constexpr std::array kOrders{kRelaxed, std::memory_order_acq_rel, kSequential};
    const std::size_t threads = rng.between(2, 3);
    std::vector<std::vector<RandomStep>> steps(threads);
    for (auto& thread : steps) {
      for (std::uint64_t i = 0; i < (threads == 2 ? 3 : 2); ++i) {
        thread.push_back({static_cast<int>(rng.below(5)), rng.chance(1, 2), kOrders[rng.below(kOrders.size())]});
      }
    }
    const auto make = [&](const Shared& words) {
      Threads made;
      for (std::size_t i = 0; i < steps.size(); ++i) {
        made.push_back([&steps, words, i] {
          int& read = words->read[i];
          perform<0>(steps[i][0], words, read);
          perform<1>(steps[i][1], words, read);
          if (steps[i].size() > 2) perform<2>(steps[i][2], words, read);
        });
      }
      return made;
    };
    Findings findings;
    const auto seen = outcomes(make, &findings);
    tried += findings.executions;
    Options all;
    all.reduce = false;
    EXPECT_EQ(seen, outcomes(make, &findings, all)) << "program " << program;
    without += findings.executions;
  }
  EXPECT_LT(4 * tried, without);
}

TEST(Explorer, SaysWhichOrdersAreNeeded) {
  const auto weakenings = weaken_each([] {
    auto words = std::make_shared<Words>();
    return Scenario{{[=] {
                       words->plain = 1;
                       words->x.store(1, kRelease);
                       words->y.store(1, kRelease);  // nobody looks
                     },
                     [=] {
                       if (words->x.load(kAcquire) == 1) require(words->plain == 1, "it is there");
                     }},
                    {}};
  });
  std::size_t needed = 0;
  for (const Weakening& weakening : weakenings) needed += weakening.findings.failure.empty() ? 0 : 1;
  EXPECT_EQ(weakenings.size(), 3u);
  EXPECT_EQ(needed, 2u);
}

}  // namespace
}  // namespace ebb::interleaving
