// Streams over a real runtime with a tiny budget and real flash: order, hazards, events, failures, back-pressure, and
// the launch window. No test depends on how long anything takes; waits are bounded by kPatience.
#include "ebb/stream.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <numeric>
#include <thread>
#include <vector>

namespace ebb {
namespace {

constexpr std::chrono::seconds kPatience{60};
constexpr std::uint64_t kBlock = 16 * kKiB;
constexpr std::uint64_t kBudget = 3 * kMiB / 2;

class StreamTest : public testing::Test {
 protected:
  void SetUp() override {
    try {
      open();
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }
  static std::shared_ptr<Runtime> open(const char* policy = "window") {
    Options options;
    options.memory = kBudget;
    options.flash_bytes = 256 * kMiB;
    options.block_bytes = kBlock;
    options.managed_bytes_min = 1;
    options.policy = policy;
    return Runtime::open(options);
  }
  template <typename T>
  static T* make(Runtime& runtime, std::size_t count) {
    return static_cast<T*>(runtime.allocate(count * sizeof(T)));
  }
  // False if it does not become true in a time in which everything should.
  template <typename F>
  static bool becomes_true(F&& condition) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  }
};

TEST_F(StreamTest, LaunchesRunInOrder) {
  Stream stream = open()->stream();
  std::vector<int> order;  // without a lock: they run one after the other
  for (int i = 0; i < 300; ++i) stream.launch("push", {}, [&order, i] { order.push_back(i); });
  stream.synchronize();
  ASSERT_EQ(order.size(), 300u);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST_F(StreamTest, StreamsAreOrderedByWhatTheyUse) {
  const auto runtime = open();
  constexpr std::size_t kCount = 5000;
  auto* const a = make<std::uint64_t>(*runtime, kCount);
  auto* const b = make<std::uint64_t>(*runtime, kCount);
  Stream first(runtime), second(runtime);
  first.launch("fill", {overwrites(a, kCount)}, [=] { std::iota(a, a + kCount, 0); });
  for (int i = 0; i < 20; ++i) {
    second.launch("double", {reads(a, kCount), overwrites(b, kCount)},
                  [=] { std::transform(a, a + kCount, b, [](std::uint64_t x) { return 2 * x; }); });
    first.launch("increment", {reads(b, kCount), overwrites(a, kCount)},
                 [=] { std::transform(b, b + kCount, a, [](std::uint64_t x) { return (x + 1) % 1000003; }); });
  }
  first.synchronize();
  second.synchronize();
  for (std::uint64_t i = 0; i < kCount; i += 97) {
    std::uint64_t x = i;
    for (int k = 0; k < 20; ++k) x = (2 * x + 1) % 1000003;
    ASSERT_EQ(a[i], x) << i;
  }
  runtime->deallocate(a);
  runtime->deallocate(b);
}

// Four times the budget goes through memory, by every policy.
TEST_F(StreamTest, DataLargerThanMemoryKeepsItsContent) {
  for (const char* policy : {"on_demand", "window", "foresight"}) {
    const auto runtime = open(policy);
    constexpr std::size_t kPieces = 64;
    constexpr std::size_t kCount = 4 * kBudget / kPieces / sizeof(std::uint32_t);
    std::vector<std::uint32_t*> pieces;
    for (std::size_t i = 0; i < kPieces; ++i) pieces.push_back(make<std::uint32_t>(*runtime, kCount));
    Stream stream = runtime->stream();
    for (std::uint32_t i = 0; i < kPieces; ++i) {
      stream.launch("fill", {overwrites(pieces[i], kCount)}, [to = pieces[i], i] {
        parallel_for(kCount, 4096, [=](std::size_t begin, std::size_t end) {
          for (std::size_t k = begin; k < end; ++k) to[k] = i + static_cast<std::uint32_t>(k);
        });
      });
    }
    for (int round = 0; round < 2; ++round) {
      for (std::uint32_t* const piece : pieces) {
        stream.launch("increment", {updates(piece, kCount)}, [piece] {
          for (std::size_t k = 0; k < kCount; ++k) ++piece[k];
        });
      }
    }
    stream.synchronize();
    for (std::uint32_t i = 0; i < kPieces; ++i) {
      std::uint32_t wrong = 0;
      for (std::uint32_t k = 0; k < kCount; ++k) wrong += pieces[i][k] != i + k + 2 ? 1 : 0;
      EXPECT_EQ(wrong, 0u) << policy << ' ' << i;
    }
    for (std::uint32_t* const piece : pieces) runtime->deallocate(piece);
  }
}

// The first kernel is not over until everything that the queued ones need has been fetched for them: with nothing
// recorded, in the first iteration.
TEST_F(StreamTest, WhatIsQueuedIsFetchedAheadOfItsTurn) {
  const auto runtime = open();
  constexpr std::size_t kPieces = 48;
  constexpr std::size_t kQueued = 8;
  constexpr std::size_t kBytes = 4 * kBlock;
  std::vector<char*> pieces;
  for (std::size_t i = 0; i < kPieces; ++i) {
    pieces.push_back(make<char>(*runtime, kBytes));
    std::fill_n(pieces.back(), kBytes, static_cast<char>(i));
  }
  Stream stream = runtime->stream();
  const std::uint64_t before = runtime->stats().prefetched_bytes;
  std::atomic<bool> go{false};
  stream.launch("wait", {}, [&] { EXPECT_TRUE(becomes_true([&] { return go.load(); })); });
  std::atomic<std::uint64_t> wrong{0};
  for (std::size_t i = 0; i < kQueued; ++i) {
    stream.launch("read", {reads(pieces[i], kBytes)}, [&wrong, piece = pieces[i], i] {
      wrong += std::count_if(piece, piece + kBytes, [i](char c) { return c != static_cast<char>(i); });
    });
  }
  // The first pieces were written first and have left: what was on flash comes back before anybody touches it.
  EXPECT_TRUE(becomes_true([&] { return runtime->stats().prefetched_bytes - before >= kQueued * kBytes * 3 / 4; }))
      << runtime->stats().prefetched_bytes - before;
  const std::uint64_t faults = runtime->stats().faults;
  go = true;
  stream.synchronize();
  EXPECT_EQ(wrong, 0u);
  EXPECT_LE(runtime->stats().faults - faults, kQueued) << "what was fetched ahead was there";
  for (char* const piece : pieces) runtime->deallocate(piece);
}

TEST_F(StreamTest, OnDemandHasNoWindow) {
  const auto runtime = open("on_demand");
  constexpr std::size_t kBytes = 2 * kBudget;
  char* const data = make<char>(*runtime, kBytes);
  std::fill_n(data, kBytes, 'x');
  Stream stream = runtime->stream();
  for (std::size_t at = 0; at < kBytes; at += kBytes / 32) {
    stream.launch("read", {reads(data + at, kBytes / 32, data)}, [=] {
      if (std::count(data + at, data + at + kBytes / 32, 'x') != kBytes / 32) throw std::runtime_error("wrong");
    });
  }
  stream.synchronize();
  EXPECT_EQ(runtime->stats().prefetched_bytes, 0u);
  runtime->deallocate(data);
}

TEST_F(StreamTest, WhatIsOverwrittenIsNotFetched) {
  const auto runtime = open();
  constexpr std::size_t kPieces = 32;
  constexpr std::size_t kBytes = 12 * kBlock;
  char* const data = make<char>(*runtime, kPieces * kBytes);  // begins and ends where a block does
  std::fill_n(data, kPieces * kBytes, 'x');
  const std::uint64_t before = runtime->stats().fetched_bytes;
  Stream stream = runtime->stream();
  for (std::size_t i = 0; i < kPieces; ++i) {
    char* const piece = data + i * kBytes;
    stream.launch("fill", {overwrites(piece, kBytes, data)}, [=] { std::fill_n(piece, kBytes, static_cast<char>(i)); });
  }
  stream.synchronize();
  // Those that were on their way out when they were wanted may count; those on flash, three quarters, may not.
  EXPECT_LE(runtime->stats().fetched_bytes - before, kBlock * 2);
  for (std::size_t i = 0; i < kPieces; ++i) {
    char* const piece = data + i * kBytes;
    ASSERT_EQ(std::count(piece, piece + kBytes, static_cast<char>(i)), static_cast<std::ptrdiff_t>(kBytes)) << i;
  }
  runtime->deallocate(data);
}

TEST_F(StreamTest, OverwritingKeepsWhatLiesBeside) {
  const auto runtime = open();
  constexpr std::size_t kBytes = 4 * kBudget;
  char* const data = make<char>(*runtime, kBytes);
  std::fill_n(data, kBytes, 'x');
  Stream stream = runtime->stream();
  // From the middle of a block to the middle of another, again and again.
  constexpr std::size_t kStride = 4 * kBlock;
  for (std::size_t at = kBlock / 2; at + 3 * kBlock <= kBytes; at += kStride) {
    stream.launch("fill", {overwrites(data + at, 3 * kBlock, data)}, [=] { std::fill_n(data + at, 3 * kBlock, 'y'); });
  }
  stream.synchronize();
  for (std::size_t at = 0; at < kBytes; at += kStride) {
    char* const begin = data + at;
    char* const middle = begin + kBlock / 2;
    char* const end = middle + 3 * kBlock;
    EXPECT_EQ(std::count(begin, middle, 'x'), middle - begin) << at;
    EXPECT_EQ(std::count(middle, end, 'y'), end - middle) << at;
    EXPECT_EQ(std::count(end, begin + kStride, 'x'), begin + kStride - end) << at;
  }
  runtime->deallocate(data);
}

TEST_F(StreamTest, EventsOrderStreams) {
  const auto runtime = open();
  Stream first(runtime), second(runtime);
  for (int i = 0; i < 50; ++i) {
    std::atomic<int> value{0};
    first.launch("set", {}, [&] { value = 1; });
    const Event set = first.record();
    second.wait(set);
    int seen = 0;
    second.launch("get", {}, [&] { seen = value; });
    second.synchronize();
    EXPECT_EQ(seen, 1);
    EXPECT_TRUE(set.over());
    set.synchronize();
  }
  EXPECT_TRUE(Event().over());
  Event().synchronize();
}

TEST_F(StreamTest, AFullQueueMakesTheLaunchingThreadWait) {
  const auto runtime = open();
  Stream stream(runtime, {.queue_max = 3, .workers = 1});
  std::atomic<bool> go{false};
  std::atomic<int> launched{0}, run{0};
  std::thread launcher([&] {
    for (int i = 0; i < 10; ++i) {
      stream.launch("wait", {}, [&] {
        EXPECT_TRUE(becomes_true([&] { return go.load(); }));
        ++run;
      });
      ++launched;
    }
  });
  EXPECT_TRUE(becomes_true([&] { return launched == 3; }));
  EXPECT_EQ(run, 0);
  EXPECT_EQ(launched, 3) << "nothing is over: the fourth has no place";
  go = true;
  launcher.join();
  stream.synchronize();
  EXPECT_EQ(run, 10);
}

TEST_F(StreamTest, AFailureSurfacesWithTheNameOfItsLaunchAndPoisonsWhoReads) {
  const auto runtime = open();
  int* const a = make<int>(*runtime, 3000);
  int* const b = make<int>(*runtime, 3000);
  int* const c = make<int>(*runtime, 3000);
  Stream first(runtime), second(runtime);
  std::atomic<int> run{0};
  first.launch("divide", {overwrites(a, 3000)}, [] { throw std::runtime_error("by zero"); });
  first.launch("innocent", {overwrites(c, 3000)}, [&] { ++run; });
  second.launch("dependent", {reads(a, 3000), overwrites(b, 3000)}, [&] { ++run; });
  second.launch("its dependent", {updates(b, 3000)}, [&] { ++run; });
  try {
    first.synchronize();
    FAIL() << "the failure was not told";
  } catch (const LaunchError& error) {
    EXPECT_EQ(error.launch(), "divide");
    EXPECT_STREQ(error.what(), "launch 'divide' failed: by zero");
    EXPECT_THROW(std::rethrow_exception(error.cause()), std::runtime_error);
  }
  try {
    second.synchronize();
    FAIL() << "the failure was not told";
  } catch (const LaunchError& error) {
    EXPECT_EQ(error.launch(), "dependent");
    EXPECT_NE(std::string(error.what()).find("'divide'"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("by zero"), std::string::npos) << error.what();
  }
  EXPECT_EQ(run, 1);
  // It has been told: it is over.
  second.launch("later", {reads(a, 3000)}, [&] { ++run; });
  first.synchronize();
  second.synchronize();
  EXPECT_EQ(run, 2);
  for (int* const data : {a, b, c}) runtime->deallocate(data);
}

TEST_F(StreamTest, MemoryOfTheProcessIsUsedWhereItMayBe) {
  constexpr std::size_t kPage = 4096;
  const auto runtime = open();
  auto* const managed = make<int>(*runtime, 1000);
  std::vector<int> heap(1000, 3);
  auto* const mapped =
      static_cast<int*>(::mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(mapped, MAP_FAILED);
  ::mprotect(reinterpret_cast<char*>(mapped) + kPage, kPage, PROT_READ);
  Stream stream = runtime->stream();
  stream.launch("add", {reads(std::span(heap)), reads(mapped, 2 * kPage / 4), overwrites(managed, 1000, managed)},
                [=, &heap] {
                  for (int i = 0; i < 1000; ++i) managed[i] = heap[static_cast<std::size_t>(i)] + mapped[i] + i;
                });
  stream.synchronize();
  EXPECT_EQ(managed[999], 1002);

  bool ran = false;
  const auto message = [&](std::initializer_list<Use> uses) -> std::string {
    stream.launch("bad", uses, [&ran] { ran = true; });
    try {
      stream.synchronize();
    } catch (const LaunchError& error) {
      return error.what();
    }
    return "";
  };
  char read_only[32];
  std::snprintf(read_only, sizeof read_only, "%p", static_cast<void*>(mapped + kPage / 4));
  const std::string denied = message({writes(mapped, 2 * kPage / 4)});
  EXPECT_NE(denied.find("writes 8192 bytes"), std::string::npos) << denied;
  EXPECT_NE(denied.find(read_only), std::string::npos) << denied;
  EXPECT_NE(denied.find("r--p"), std::string::npos) << denied;
  // Lower than anything may be mapped (vm.mmap_min_addr): a hole of our own could be taken by another thread.
  const std::string missing = message({reads(reinterpret_cast<const int*>(64), 16)});
  EXPECT_NE(missing.find("nothing is mapped there"), std::string::npos) << missing;
  EXPECT_FALSE(ran);
  EXPECT_EQ(message({writes(mapped, kPage / 4)}), "");
  EXPECT_TRUE(ran);
  ::munmap(mapped, 2 * kPage);
  runtime->deallocate(managed);
}

TEST_F(StreamTest, KernelsOwnWhatTheyUse) {
  const auto runtime = open();
  const std::uint64_t live = runtime->stats().live_bytes;
  Stream stream = runtime->stream();
  for (int i = 0; i < 200; ++i) {
    const std::shared_ptr<void> buffer(runtime->allocate(kBlock), [runtime](void* data) { runtime->deallocate(data); });
    auto* const bytes = static_cast<char*>(buffer.get());
    stream.launch("fill", {overwrites(bytes, kBlock)}, [buffer, bytes] { std::fill_n(bytes, kBlock, 'x'); });
  }
  stream.synchronize();
  EXPECT_EQ(runtime->stats().live_bytes, live);
}

TEST_F(StreamTest, PartsOfAKernelCoverItOnceEach) {
  Stream stream = open()->stream();
  for (const std::size_t count : {0u, 1u, 7u, 1000u, 4096u}) {
    for (const std::size_t grain : {1u, 3u, 1000u, 100000u}) {
      std::vector<std::atomic<int>> visits(count);
      stream.launch("count", {}, [&] {
        parallel_for(count, grain, [&](std::size_t begin, std::size_t end) {
          EXPECT_LE(end - begin, grain);
          for (std::size_t i = begin; i < end; ++i) ++visits[i];
        });
      });
      stream.synchronize();
      EXPECT_TRUE(std::all_of(visits.begin(), visits.end(), [](const auto& visit) { return visit == 1; }));
    }
  }
}

TEST_F(StreamTest, PartsMayHavePartsAndFail) {
  Stream stream = open()->stream();
  std::atomic<int> visits{0};
  stream.launch("nested", {}, [&] {
    parallel_for(8, 1,
                 [&](std::size_t, std::size_t) { parallel_for(8, 1, [&](std::size_t, std::size_t) { ++visits; }); });
  });
  stream.synchronize();
  EXPECT_EQ(visits, 64);
  stream.launch("failing", {}, [&] {
    parallel_for(1000, 1, [&](std::size_t begin, std::size_t) {
      if (begin == 3) throw std::runtime_error("part 3");
    });
  });
  EXPECT_THROW(stream.synchronize(), LaunchError);
  EXPECT_THROW(parallel_for(3, 0, [](std::size_t, std::size_t) {}), Error);
}

TEST_F(StreamTest, NonsenseIsRefused) {
  const auto runtime = open();
  EXPECT_THROW(Stream(nullptr), Error);
  EXPECT_THROW(Stream(runtime, {.queue_max = 0}), Error);
  EXPECT_THROW(Stream(runtime, {.queue_max = 8, .workers = 100000}), Error);
  Stream stream(runtime);
  int value = 0;
  EXPECT_THROW(stream.launch("null", {reads(static_cast<int*>(nullptr), 1)}, [] {}), Error);
  EXPECT_THROW(stream.launch("wrap", {reads(reinterpret_cast<char*>(&value), ~std::size_t{0})}, [] {}), Error);
  stream.launch("inside", {}, [&] { stream.launch("nested", {}, [] {}); });
  EXPECT_THROW(stream.synchronize(), LaunchError);
  stream.launch("inside", {}, [&] { stream.synchronize(); });
  EXPECT_THROW(stream.synchronize(), LaunchError);
  stream.launch("null size", {reads(static_cast<int*>(nullptr), 0), updates(&value, 1)}, [&] { value = 1; });
  stream.synchronize();
  EXPECT_EQ(value, 1) << "memory that the runtime does not manage is used like any other";
}

TEST_F(StreamTest, TheDestructorWaits) {
  const auto runtime = open();
  std::atomic<int> run{0};
  {
    Stream stream(runtime);
    for (int i = 0; i < 20; ++i) stream.launch("count", {}, [&] { ++run; });
    stream.launch("failing", {}, [] { throw 1; });
    Stream moved = std::move(stream);
    moved.launch("count", {}, [&] { ++run; });
  }
  EXPECT_EQ(run, 21);
}

TEST_F(StreamTest, AForkedChildIsToldAndMakesItsOwn) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer does not follow threads of a forked child";
#endif
  const auto runtime = open();
  int* const data = make<int>(*runtime, 3000);
  Stream stream(runtime);
  stream.launch("fill", {overwrites(data, 3000)}, [=] { std::fill_n(data, 3000, 7); });
  stream.synchronize();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    int result = 1;
    try {
      stream.launch("in the child", {}, [] {});
    } catch (const Error&) {
      Stream own(runtime);
      own.launch("sum", {reads(data, 3000)}, [&] { result = std::accumulate(data, data + 3000, 0) == 21000 ? 0 : 2; });
      own.synchronize();
    }
    ::_exit(result);
  }
  int status = 0;
  ASSERT_TRUE(becomes_true([&] { return ::waitpid(child, &status, WNOHANG) == child; }));
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  stream.launch("in the parent", {}, [] {});
  stream.synchronize();
  runtime->deallocate(data);
}

}  // namespace
}  // namespace ebb
