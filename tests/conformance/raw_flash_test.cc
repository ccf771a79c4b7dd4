// What every implementation of RawFlash has to do; those on files run in the default flash directory. Where the
// simulated device is stricter than the port, or has no wall clock, it says so and skips.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/test/in_a_child.h"
#include "flash_worlds.h"

namespace ebb::conformance {
namespace {

using namespace std::chrono_literals;

constexpr unsigned kSecondsMax = 120;
constexpr std::uint32_t kDepth = FlashWorld::kDepth;
constexpr std::size_t kBytes = FlashWorld::kBytes;
constexpr auto kLong = 10s;

using Bytes = std::span<std::byte>;

void fill(Bytes bytes, int value) { std::memset(bytes.data(), value, bytes.size()); }

bool all_are(std::span<const std::byte> bytes, int value) {
  return std::ranges::all_of(bytes, [&](std::byte byte) { return byte == static_cast<std::byte>(value); });
}

class RawFlashTest : public testing::TestWithParam<FlashDriver> {
 protected:
  void SetUp() override {
    ::alarm(kSecondsMax);
    std::string reason;
    world_ = make_flash_world(GetParam(), reason);
    if (world_ == nullptr) GTEST_SKIP() << reason;
  }
  void TearDown() override { ::alarm(0); }

  RawFlash& flash() { return *world_->flash; }
  Bytes buffer(std::uint32_t i = 0) { return world_->buffer(i); }
  bool in_virtual_time() const { return world_->fd < 0; }
  void write(std::uint32_t token, std::uint64_t offset, Bytes bytes) { flash().submit({true, token, offset, bytes}); }
  void read(std::uint32_t token, std::uint64_t offset, Bytes bytes) { flash().submit({false, token, offset, bytes}); }

  // Polls until `count` requests have completed; by token.
  std::map<std::uint32_t, Status> collect(std::size_t count) {
    std::map<std::uint32_t, Status> statuses;
    const auto end = std::chrono::steady_clock::now() + kLong;
    while (statuses.size() < count && std::chrono::steady_clock::now() < end) {
      std::array<RawCompletion, 3> completions;  // fewer than there may be
      const std::size_t found = flash().poll(completions);
      for (const RawCompletion& completion : std::span(completions).first(found)) {
        EXPECT_TRUE(statuses.emplace(completion.token, completion.status).second) << "completed twice";
      }
      if (found == 0) flash().wait(100ms);
    }
    EXPECT_EQ(statuses.size(), count) << "some never completed";
    return statuses;
  }
  Status only_status() {
    const auto statuses = collect(1);
    return statuses.empty() ? Status::kInvalid : statuses.begin()->second;
  }

  std::unique_ptr<FlashWorld> world_;
};

TEST_P(RawFlashTest, ReadsBackWhatWasWrittenAtFullDepth) {
  constexpr std::uint32_t kRounds = 6;
  ASSERT_EQ(flash().depth(), kDepth);
  ASSERT_EQ(flash().reserve(kRounds * kDepth * kBytes), Status::kOk);
  const auto extent_of = [](std::uint32_t token, std::uint32_t round) { return token * 7 % kDepth * kRounds + round; };
  for (const bool writing : {true, false}) {
    for (std::uint32_t round = 0; round < kRounds; ++round) {
      for (std::uint32_t i = 0; i < kDepth; ++i) {
        const std::uint32_t extent = extent_of(i, round);
        fill(buffer(i), writing ? static_cast<int>(extent + 1) : 0);
        if (writing) write(i, extent * kBytes, buffer(i));
        if (!writing) read(i, extent * kBytes, buffer(i));
      }
      for (const auto& [token, status] : collect(kDepth)) {
        EXPECT_EQ(status, Status::kOk);
        EXPECT_TRUE(all_are(buffer(token), static_cast<int>(extent_of(token, round) + 1)));
      }
    }
  }
}

TEST_P(RawFlashTest, TokensAreTheCallersAndSlotsAreReused) {
  ASSERT_EQ(flash().reserve(2 * kBytes), Status::kOk);
  for (std::uint32_t i = 0; i < 3 * kDepth; ++i) {
    write(0xf0000000u + i, 0, buffer(0));
    write(7, kBytes, buffer(1));
    const auto statuses = collect(2);
    EXPECT_EQ(statuses.count(0xf0000000u + i), 1u);
    EXPECT_EQ(statuses.count(7), 1u);
  }
}

TEST_P(RawFlashTest, AReadPastTheEndIsAnError) {
  if (in_virtual_time()) GTEST_SKIP() << "the simulated device takes it for a bug";
  ASSERT_EQ(flash().reserve(kBytes), Status::kOk);
  read(1, 16 * kBytes, buffer());
  EXPECT_EQ(only_status(), Status::kIoError);
}

TEST_P(RawFlashTest, ATransferThatEndsShortIsAnErrorAndNotAHang) {
  if (in_virtual_time()) GTEST_SKIP() << "the simulated device transfers whole blocks";
  ASSERT_EQ(flash().reserve(kBytes), Status::kOk);
  const Bytes longer = world_->buffers.first(4 * kBytes);
  read(1, 0, longer);  // a quarter of it exists
  EXPECT_EQ(only_status(), Status::kIoError);
  EXPECT_EQ(flash().read_now({false, 0, 0, longer}), Status::kIoError);
  read(2, 0, buffer());  // and the device goes on
  EXPECT_EQ(only_status(), Status::kOk);
}

TEST_P(RawFlashTest, ReserveGrowsAndNeverShrinks) {
  ASSERT_EQ(flash().reserve(2 * kBytes), Status::kOk);
  write(1, kBytes, buffer());
  EXPECT_EQ(only_status(), Status::kOk);
  ASSERT_EQ(flash().reserve(kBytes), Status::kOk);
  EXPECT_EQ(flash().reserve(std::uint64_t{1} << 60), Status::kNoSpace);
  read(1, kBytes, buffer());
  EXPECT_EQ(only_status(), Status::kOk);
}

TEST_P(RawFlashTest, PollWithNothingReturnsAtOnce) {
  std::array<RawCompletion, 4> completions;
  EXPECT_EQ(flash().poll(completions), 0u);
  EXPECT_EQ(flash().poll({}), 0u);
}

TEST_P(RawFlashTest, WaitEndsWhenTheTimeIsOver) {
  if (in_virtual_time()) GTEST_SKIP() << "virtual time passes at once";
  const auto begin = std::chrono::steady_clock::now();
  flash().wait(60ms);
  const auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(took, 50ms);
  EXPECT_LT(took, kLong);
}

TEST_P(RawFlashTest, WaitEndsWithACompletion) {
  ASSERT_EQ(flash().reserve(kBytes), Status::kOk);
  write(3, 0, buffer());
  const auto begin = std::chrono::steady_clock::now();
  flash().wait(kLong);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kLong);
  EXPECT_EQ(only_status(), Status::kOk);
}

TEST_P(RawFlashTest, AWakeUpEndsWaitAlsoWhenItCameBefore) {
  std::array<RawCompletion, 4> completions;
  for (const auto delay : {30ms, 0ms}) {
    std::thread waker([&] {
      std::this_thread::sleep_for(delay);
      flash().wake();
    });
    if (delay == 0ms) waker.join();
    const auto begin = std::chrono::steady_clock::now();
    flash().wait(kLong);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, kLong);
    if (waker.joinable()) waker.join();
    EXPECT_EQ(flash().poll(completions), 0u);
  }
}

// The mover polls between taking its work and waiting: a wake-up that the poll comes across still means new work.
TEST_P(RawFlashTest, AWakeUpThatAPollCameAcrossStillEndsTheNextWait) {
  flash().wake();
  std::this_thread::sleep_for(5ms);
  RawCompletion none;
  ASSERT_EQ(flash().poll({&none, 1}), 0u);
  const auto begin = std::chrono::steady_clock::now();
  flash().wait(kLong);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kLong);
}

TEST_P(RawFlashTest, ManyWakeUpsFromManyThreadsLoseNoCompletion) {
  constexpr std::uint32_t kRequests = 200;
  ASSERT_EQ(flash().reserve(kDepth * kBytes), Status::kOk);
  std::atomic<bool> ended{false};
  std::vector<std::thread> wakers;
  for (int i = 0; i < 2; ++i) {
    wakers.emplace_back([&] {
      while (!ended) {
        flash().wake();
        std::this_thread::sleep_for(200us);
      }
    });
  }
  for (std::uint32_t i = 0; i < kRequests; ++i) {
    write(i, i % kDepth * kBytes, buffer());
    EXPECT_EQ(collect(1).count(i), 1u);
  }
  ended = true;
  for (std::thread& waker : wakers) waker.join();
}

TEST_P(RawFlashTest, DestructionWaitsForWhatIsInFlight) {
  ASSERT_EQ(flash().reserve(kDepth * kBytes), Status::kOk);
  for (std::uint32_t i = 0; i < kDepth; ++i) {
    fill(buffer(i), 'x');
    write(i, i * kBytes, buffer(i));
  }
  world_->flash.reset();
  fill(world_->buffers, 'y');  // the caller's again
  if (in_virtual_time()) return;
  for (std::uint32_t i = 0; i < kDepth; ++i) {
    ASSERT_EQ(::pread(world_->fd, buffer().data(), kBytes, static_cast<off_t>(i * kBytes)), ssize_t{kBytes});
    EXPECT_EQ(all_are(buffer(), 'x'), !encrypts(GetParam())) << i;
    EXPECT_FALSE(all_are(buffer(), 0)) << i;
  }
}

// What lies on the disk, past the driver: what was written, or nothing that tells of it.
TEST_P(RawFlashTest, OnTheDeviceThereIsWhatWasWrittenUnlessItIsEncrypted) {
  if (in_virtual_time()) GTEST_SKIP() << "the simulated device has no file";
  constexpr std::string_view kSecret = "The magic words are squeamish ossifrage.";
  ASSERT_EQ(flash().reserve(2 * kBytes), Status::kOk);
  for (std::size_t at = 0; at + kSecret.size() <= kBytes; at += kSecret.size()) {
    std::memcpy(buffer().data() + at, kSecret.data(), kSecret.size());
  }
  std::vector<std::string> seen;  // of three writes of the same
  for (const std::uint64_t offset : {std::size_t{0}, kBytes, std::size_t{0}}) {
    write(1, offset, buffer());
    ASSERT_EQ(only_status(), Status::kOk);
    ASSERT_EQ(::pread(world_->fd, buffer(1).data(), kBytes, static_cast<off_t>(offset)), ssize_t{kBytes});
    seen.emplace_back(reinterpret_cast<const char*>(buffer(1).data()), kBytes);
  }
  const bool plain = !encrypts(GetParam());
  for (const std::string& bytes : seen) {
    EXPECT_EQ(bytes.find(kSecret) != std::string::npos, plain);
    EXPECT_EQ(bytes.find(kSecret.substr(0, 16)) != std::string::npos, plain);
  }
  EXPECT_EQ(seen[0] == seen[1], plain) << "equal blocks in two places";
  EXPECT_EQ(seen[0] == seen[2], plain) << "the same block written twice";
  for (const std::uint64_t offset : {std::size_t{0}, kBytes}) {
    read(2, offset, buffer(2));
    ASSERT_EQ(only_status(), Status::kOk);
    EXPECT_TRUE(std::ranges::equal(buffer(2), buffer()));
  }
}

TEST_P(RawFlashTest, WhatIsReadFromAFileOfTheProgramsIsAsItIs) {
  if (in_virtual_time()) GTEST_SKIP() << "the simulated device has files of its own";
  FlashFile file = FlashFile::open(default_flash_directory());
  ASSERT_EQ(file.grow(kBytes), Status::kOk);
  fill(buffer(), 'f');
  ASSERT_EQ(file.write(0, buffer()), Status::kOk);
  const RawRequest request{false, 4, 0, buffer(1), file.fd(), kBytes};
  flash().submit(request);
  EXPECT_EQ(only_status(), Status::kOk);
  EXPECT_TRUE(all_are(buffer(1), 'f'));
  EXPECT_EQ(flash().read_now({false, 0, 0, buffer(2), file.fd(), kBytes}), Status::kOk);
  EXPECT_TRUE(all_are(buffer(2), 'f'));
}

// A child reads what was written after it had been forked, too: a snapshot's blocks are.
TEST_P(RawFlashTest, AChildReadsWhatWasWrittenSinceTheFork) {
  if (in_virtual_time()) GTEST_SKIP() << "the simulated world has one process";
  ASSERT_EQ(flash().reserve(kBytes), Status::kOk);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(kSecondsMax);
    char written = 0;
    const bool right = ::read(ends[0], &written, 1) == 1 && flash().read_now({false, 0, 0, buffer(5)}) == Status::kOk &&
                       all_are(buffer(5), 's');
    ::_exit(right ? 0 : 1);
  }
  fill(buffer(), 's');
  write(1, 0, buffer());
  ASSERT_EQ(only_status(), Status::kOk);
  ASSERT_EQ(::write(ends[1], "w", 1), 1);
  int status = 1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_P(RawFlashTest, ReadNowWorksFromAnyThreadAndInAChild) {
  if (in_virtual_time()) GTEST_SKIP() << "the simulated world has one thread";
  ASSERT_EQ(flash().reserve(2 * kBytes), Status::kOk);
  fill(buffer(), 'r');
  write(1, kBytes, buffer());
  ASSERT_EQ(only_status(), Status::kOk);
  std::vector<std::thread> threads;
  for (std::uint32_t i = 1; i < 4; ++i) {
    threads.emplace_back([&, i] {
      EXPECT_EQ(flash().read_now({false, 0, kBytes, buffer(i)}), Status::kOk);
      EXPECT_TRUE(all_are(buffer(i), 'r'));
    });
  }
  for (std::thread& thread : threads) thread.join();
  expect_end(in_a_child(kSecondsMax, [&] {
    const bool right = flash().read_now({false, 0, kBytes, buffer(5)}) == Status::kOk && all_are(buffer(5), 'r');
    world_->flash.reset();  // and the child may end as it likes
    return right ? 0 : 1;
  }));
  write(2, 0, buffer());  // what the child did with its copy is not felt here
  EXPECT_EQ(only_status(), Status::kOk);
}

// Under a limit on file sizes, which is the one kind of full disk that a test may make for itself.
TEST_P(RawFlashTest, AFullFileIsNoSpaceWhenReservedAndAnErrorWhenWritten) {
  if (in_virtual_time()) GTEST_SKIP() << "the simulated device has no file";
  world_.reset();
  expect_end(in_a_child(kSecondsMax, [&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{2 * kBytes, 2 * kBytes};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    std::string reason;
    world_ = make_flash_world(GetParam(), reason);
    if (flash().reserve(64 * kBytes) != Status::kNoSpace) return 1;
    if (flash().reserve(2 * kBytes) != Status::kOk) return 2;
    write(1, kBytes, buffer());
    if (only_status() != Status::kOk) return 3;
    write(1, 8 * kBytes, buffer());
    if (only_status() == Status::kOk) return 4;
    return 0;
  }));
}

INSTANTIATE_TEST_SUITE_P(Drivers, RawFlashTest,
                         testing::Values(FlashDriver::kUring, FlashDriver::kThreads, FlashDriver::kSim,
                                         FlashDriver::kEncryptedUring, FlashDriver::kEncryptedThreads),
                         [](const auto& test) { return name(test.param); });

}  // namespace
}  // namespace ebb::conformance
