// What every implementation of SpaceMemory has to do, at several block sizes. The machinery around it is pager.h.
//
// A test that hangs is a lost wake-up: an alarm ends it, with its name as the last line of the log.
#include <gtest/gtest.h>
#include <liburing.h>
#include <setjmp.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <string>

#include "pager.h"
#include "space_drivers.h"

namespace ebb::conformance {
namespace {

constexpr unsigned kSecondsMax = 120;
constexpr std::uint32_t kBlocks = 12;
constexpr std::uint32_t kFrames = 4;

class SpaceMemoryTest : public testing::TestWithParam<SpaceCase> {
 protected:
  void SetUp() override {
    ::alarm(kSecondsMax);
    std::string reason;
    memory_ = make_space(GetParam().driver, bytes(), kBlocks, kFrames, reason);
    if (memory_ == nullptr) GTEST_SKIP() << reason;
  }
  void TearDown() override { ::alarm(0); }

  static std::size_t bytes() { return GetParam().block_bytes; }
  static std::size_t words() { return bytes() / sizeof(std::uint64_t); }
  static std::uint64_t value(std::uint32_t block, std::size_t word) {
    return (std::uint64_t{block} << 40) + word * 7 + 1;
  }
  volatile std::uint64_t* at(std::uint32_t block) const {
    return reinterpret_cast<std::uint64_t*>(memory_->base() + block * bytes());
  }
  void write_block(std::uint32_t block, std::uint64_t add = 0) {
    for (std::size_t i = 0; i < words(); ++i) at(block)[i] = value(block, i) + add;
  }
  std::size_t wrong_words(std::uint32_t block, std::uint64_t add = 0) {
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < words(); ++i) wrong += at(block)[i] != value(block, i) + add ? 1 : 0;
    return wrong;
  }

  std::unique_ptr<SpaceMemory> memory_;
};

TEST_P(SpaceMemoryTest, SaysWhatItIs) {
  EXPECT_FALSE(memory_->description().empty());
  EXPECT_EQ(memory_->description().find('\n'), std::string::npos);
  EXPECT_GE(memory_->bytes(), kBlocks * bytes());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory_->base()) % 4096, 0u);
}

TEST_P(SpaceMemoryTest, AFrameIsWritableAtHomeAndKeepsItsContentUnderABlock) {
  const FrameIndex frame(2);
  const BlockIndex block(5);
  ASSERT_EQ(memory_->create(frame), Status::kOk);
  ASSERT_EQ(memory_->home(frame).size(), bytes());
  for (int cycle = 0; cycle < 3; ++cycle) {
    std::memset(memory_->home(frame).data(), 'a' + cycle, bytes());
    memory_->attach(frame, block);
    auto* const data = reinterpret_cast<volatile char*>(at(5));
    EXPECT_EQ(data[0], 'a' + cycle);
    EXPECT_EQ(data[bytes() - 1], 'a' + cycle);
    data[bytes() / 2] = 'Z';
    ASSERT_EQ(memory_->detach(block, frame), Status::kOk);
    EXPECT_EQ(static_cast<char>(memory_->home(frame)[bytes() / 2]), 'Z');
    EXPECT_EQ(static_cast<char>(memory_->home(frame)[bytes() - 1]), 'a' + cycle);
  }
  memory_->destroy(frame);
}

TEST_P(SpaceMemoryTest, ContentSurvivesMoreBlocksThanFrames) {
  Pager pager(*memory_, bytes(), kBlocks, kFrames);
  for (std::uint32_t round = 0; round < 3; ++round) {
    for (std::uint32_t block = 0; block < kBlocks; ++block) write_block(block, round);
    for (std::uint32_t block = 0; block < kBlocks; ++block) EXPECT_EQ(wrong_words(block, round), 0u) << block;
  }
  EXPECT_GE(pager.faults(), 3u * (kBlocks - kFrames));
}

TEST_P(SpaceMemoryTest, ATouchWaitsForItsContent) {
  Pager pager(*memory_, bytes(), kBlocks, kFrames);
  pager.set_copy(3, std::byte{0x5a});
  std::atomic<std::uint64_t> seen{0};
  std::thread toucher;
  {
    const std::lock_guard lock(pager.mutex());  // nobody is served meanwhile
    toucher = std::thread([&] { seen = at(3)[words() - 1]; });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_EQ(seen, 0u);
  }
  toucher.join();
  EXPECT_EQ(seen, 0x5a5a5a5a5a5a5a5au);
}

// Whether the kernel would have this in a core dump, in part at least.
bool dumped(const std::byte* data, std::size_t bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(data);
  std::ifstream maps("/proc/self/smaps");
  bool within = false;
  bool any = false;
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    const bool heads = std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2;
    if (heads) within = begin < first + bytes && first < end;
    any = any || (within && line.starts_with("VmFlags:") && line.find(" dd") == std::string::npos);
  }
  return any;
}

TEST_P(SpaceMemoryTest, IsLeftOutOfCoreDumpsIfThatIsWanted) {
  const FrameIndex frame(1);
  ASSERT_EQ(memory_->create(frame), Status::kOk);
  memory_->attach(frame, BlockIndex(3));
  const std::byte* const block = memory_->base() + 3 * bytes();
  EXPECT_TRUE(dumped(block, bytes()));
  ASSERT_EQ(memory_->detach(BlockIndex(3), frame), Status::kOk);
  memory_->leave_out_of_core_dumps();
  memory_->attach(frame, BlockIndex(3));
  EXPECT_FALSE(dumped(block, bytes()));
  ASSERT_EQ(memory_->detach(BlockIndex(3), frame), Status::kOk);
  EXPECT_FALSE(dumped(memory_->home(frame).data(), bytes()));
}

TEST_P(SpaceMemoryTest, ErrnoSurvivesAFault) {
  Pager pager(*memory_, bytes(), kBlocks, kFrames);
  errno = ENOTTY;
  at(1)[0] = 1;
  const int after = errno;
  EXPECT_EQ(after, ENOTTY);
}

TEST_P(SpaceMemoryTest, ManyThreadsTouchManyBlocks) {
  constexpr std::uint32_t kThreads = 12;
  constexpr std::uint64_t kRounds = 40;
  Pager pager(*memory_, bytes(), kBlocks, kFrames);
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < kRounds; ++i) {
        volatile std::uint64_t& own = at(static_cast<std::uint32_t>((i * 5 + t) % kBlocks))[t];
        own = own + 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::uint64_t total = 0;
  for (std::uint32_t block = 0; block < kBlocks; ++block) {
    for (std::uint32_t t = 0; t < kThreads; ++t) total += at(block)[t];
  }
  EXPECT_EQ(total, kThreads * kRounds);
}

TEST_P(SpaceMemoryTest, ManyThreadsTouchOneBlock) {
  constexpr std::uint32_t kThreads = 100;  // more than any driver keeps places for
  Pager pager(*memory_, bytes(), kBlocks, kFrames);
  pager.set_copy(7, std::byte{1});
  std::atomic<std::uint32_t> right{0};
  std::vector<std::thread> threads;
  {
    const std::lock_guard lock(pager.mutex());
    for (std::uint32_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] { right += at(7)[t] == 0x0101010101010101u ? 1 : 0; });
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, kThreads);
}

TEST_P(SpaceMemoryTest, NothingWrittenIsLostWhileBlocksLeave) {
  Pager pager(*memory_, bytes(), kBlocks, kFrames);
  std::atomic<bool> ended{false};
  std::array<std::uint64_t, 2> written{};
  std::vector<std::thread> writers;
  for (std::uint32_t t = 0; t < written.size(); ++t) {
    writers.emplace_back([&, t] {
      // The first and the last page of one block, so that a block torn in two would show.
      volatile std::uint64_t& first = at(0)[t];
      volatile std::uint64_t& last = at(0)[words() - 1 - t];
      while (!ended) {
        first = first + 1;
        last = last + 1;
        ++written[t];
      }
    });
  }
  for (int i = 0; i < 200; ++i) {
    EXPECT_EQ(pager.evict(0), Status::kOk);
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  ended = true;
  for (std::thread& writer : writers) writer.join();
  for (std::uint32_t t = 0; t < written.size(); ++t) {
    EXPECT_GT(written[t], 0u);
    EXPECT_EQ(at(0)[t], written[t]);
    EXPECT_EQ(at(0)[words() - 1 - t], written[t]);
  }
}

TEST_P(SpaceMemoryTest, WakeOfAnyBlockIsHarmless) {
  Pager pager(*memory_, bytes(), kBlocks, kFrames);
  write_block(1);
  {
    const std::lock_guard lock(pager.mutex());
    memory_->wake(BlockIndex(1));
    memory_->wake(BlockIndex(9));
  }
  EXPECT_EQ(wrong_words(1), 0u);
  // A thread that is woken although the block is absent tries again, and is served then.
  std::atomic<bool> done{false};
  std::thread toucher;
  {
    const std::lock_guard lock(pager.mutex());
    toucher = std::thread([&] { done = at(9)[0] == 0; });
    for (int i = 0; i < 20; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      memory_->wake(BlockIndex(9));
    }
  }
  toucher.join();
  EXPECT_TRUE(done);
}

TEST_P(SpaceMemoryTest, FramesCanBeGivenBackAndMadeAnew) {
  Pager pager(*memory_, bytes(), kBlocks, kFrames);
  write_block(0);
  write_block(1);
  for (int i = 0; i < 3; ++i) {
    pager.renew_free_frames();
    write_block(2, static_cast<std::uint64_t>(i));
    EXPECT_EQ(pager.evict(2), Status::kOk);
  }
  EXPECT_EQ(wrong_words(0), 0u);
  EXPECT_EQ(wrong_words(1), 0u);
  EXPECT_EQ(wrong_words(2, 2), 0u);
}

TEST_P(SpaceMemoryTest, InterruptReturnsNextWithNothing) {
  std::array<BlockIndex, 4> blocks;
  std::atomic<bool> returned{false};
  std::thread waiter([&] {
    EXPECT_EQ(memory_->next(blocks), 0u);
    returned = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(returned);
  memory_->interrupt();
  waiter.join();
  memory_->interrupt();  // before next() is called: not lost
  EXPECT_EQ(memory_->next(blocks), 0u);
}

TEST_P(SpaceMemoryTest, ASystemCallWaitsOrFailsButNeverSeesOtherBytes) {
  Pager pager(*memory_, bytes(), kBlocks, kFrames);
  pager.set_copy(4, std::byte{0x33});
  std::array<int, 2> ends;
  ASSERT_EQ(::pipe(ends.data()), 0);
  const void* const source = const_cast<const std::uint64_t*>(at(4));
  const ssize_t written = ::write(ends[1], source, 8);
  if (serves_system_calls(*memory_)) {
    std::uint64_t through = 0;
    ASSERT_EQ(written, 8) << std::strerror(errno);
    ASSERT_EQ(::read(ends[0], &through, 8), 8);
    EXPECT_EQ(through, 0x3333333333333333u);
  } else {
    EXPECT_EQ(written, -1);
    EXPECT_EQ(errno, EFAULT);
    EXPECT_EQ(at(4)[0], 0x3333333333333333u);  // a touch by the program is served all the same
    EXPECT_EQ(::write(ends[1], source, 8), 8);
  }
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_P(SpaceMemoryTest, APinnedBlockKeepsItsContent) {
  io_uring ring{};
  if (::io_uring_queue_init(2, &ring, 0) != 0) GTEST_SKIP() << "no io_uring to pin pages with";
  Pager pager(*memory_, bytes(), kBlocks, kFrames);
  write_block(6);
  // The last page only: what was moved before it is met has to come back.
  const iovec pinned{memory_->base() + 7 * bytes() - 4096, 4096};
  ASSERT_EQ(::io_uring_register_buffers(&ring, &pinned, 1), 0);
  const Status status = pager.evict(6);
  if (GetParam().driver == SpaceDriver::kMove) {
    EXPECT_EQ(status, Status::kBusy);
    EXPECT_TRUE(pager.resident(6));
  }
  EXPECT_EQ(wrong_words(6), 0u);
  EXPECT_EQ(::io_uring_unregister_buffers(&ring), 0);
  ::io_uring_queue_exit(&ring);
  EXPECT_EQ(pager.evict(6), Status::kOk);
  EXPECT_FALSE(pager.resident(6));
  EXPECT_EQ(wrong_words(6), 0u);
}

sigjmp_buf g_back;
void* volatile g_bus_address = nullptr;

// Whether reading the word ends in SIGBUS, at its address.
bool bus_error_at(volatile std::uint64_t* word) {
  struct sigaction action {};
  struct sigaction before {};
  action.sa_flags = SA_SIGINFO;
  action.sa_sigaction = [](int, siginfo_t* info, void*) {
    g_bus_address = info->si_addr;
    ::siglongjmp(g_back, 1);
  };
  ::sigaction(SIGBUS, &action, &before);
  volatile bool raised = true;
  if (::sigsetjmp(g_back, 1) == 0) {
    static_cast<void>(*word);
    raised = false;
  }
  ::sigaction(SIGBUS, &before, nullptr);
  return raised && g_bus_address == const_cast<std::uint64_t*>(word);
}

TEST_P(SpaceMemoryTest, ALostBlockRaisesSigbusUntilItIsAttachedAgain) {
  Pager pager(*memory_, bytes(), kBlocks, kFrames);
  write_block(2);
  write_block(3);
  pager.lose(2);
  EXPECT_TRUE(bus_error_at(at(2)));
  EXPECT_TRUE(bus_error_at(at(2) + words() - 1));
  EXPECT_EQ(wrong_words(3), 0u);
  pager.restore(2);
  write_block(2, 5);
  EXPECT_EQ(wrong_words(2, 5), 0u);
  EXPECT_EQ(pager.evict(2), Status::kOk);
  EXPECT_EQ(wrong_words(2, 5), 0u);
}

TEST_P(SpaceMemoryTest, OneWhoWaitsForALostBlockIsEndedBySigbus) {
  if (kThreadSanitizer) GTEST_SKIP() << "the thread sanitizer starts no threads after fork";
  const auto run = [] {
    ::alarm(kSecondsMax);
    ::signal(SIGBUS, SIG_DFL);  // a sanitizer may have a handler
    std::string reason;
    const std::unique_ptr<SpaceMemory> memory = make_space(GetParam().driver, bytes(), kBlocks, kFrames, reason);
    Pager pager(*memory, bytes(), kBlocks, kFrames);
    std::thread toucher;
    {
      const std::lock_guard lock(pager.mutex());
      toucher = std::thread([&] { static_cast<void>(*reinterpret_cast<volatile char*>(memory->base())); });
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    pager.lose(0);
    for (;;) {  // if it was served before: until it fails
      static_cast<void>(*reinterpret_cast<volatile char*>(memory->base()));
    }
  };
  EXPECT_EXIT(run(), testing::KilledBySignal(SIGBUS), "");
}

INSTANTIATE_TEST_SUITE_P(Drivers, SpaceMemoryTest, all_space_cases(), title);

}  // namespace
}  // namespace ebb::conformance
