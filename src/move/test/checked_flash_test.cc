// CheckedFlash: what comes back is what was written, or it does not come back; and unchanged bytes are not written.
#include "move/checked_flash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "sim/sim_flash.h"

namespace ebb {
namespace {

constexpr std::size_t kBytes = 64;

// Files of which somebody knows whether they are what they were.
class KnownFiles final : public SourceFiles {
 public:
  Status open(const std::string&, SourceFile&, std::string&) override { return Status::kUnsupported; }
  Status open(int, SourceFile&, std::string&) override { return Status::kUnsupported; }
  void close(std::int32_t) override {}
  bool same_as_opened(std::int32_t) const override { return same; }
  bool changed(std::int32_t) const override { return other; }
  std::int32_t take_changed() override { return FilePlace::kNoFile; }
  std::string identity(std::int32_t) const override { return ""; }
  const char* name(std::int32_t) const override { return ""; }
  bool serve(FileMapper*) override { return false; }
  bool same = true;
  bool other = false;
};

class CheckedFlashTest : public ::testing::Test {
 protected:
  CheckedFlashTest() {
    EXPECT_EQ(flash_.reserve(4), Status::kOk);
    for (std::uint32_t i = 0; i < 3; ++i) EXPECT_EQ(memory_.create(FrameIndex(i)), Status::kOk);
  }
  std::unique_ptr<RawFlash> make_device() {
    auto device = std::make_unique<SimFlash>(SimFlash::Config{kBytes, 4, 1}, plan_, nth_, memory_, clock_, log_);
    device_ = device.get();
    return device;
  }
  FlashCompletion run(const FlashRequest& request) {
    flash_.submit({&request, 1});
    std::array<FlashCompletion, 4> completions;
    flash_.wait(std::chrono::seconds(1));
    EXPECT_EQ(flash_.poll(completions), 1u);
    EXPECT_EQ(completions[0].token, request.token);
    return completions[0];
  }
  FlashCompletion write(std::uint32_t frame, std::uint32_t extent) {
    return run({FlashRequest::Kind::kWrite, false, 1, FrameIndex(frame), ExtentIndex(extent), {}});
  }
  FlashCompletion write_if_not(std::uint32_t frame, std::uint32_t extent, const Digest& expected) {
    return run({FlashRequest::Kind::kWrite, true, 1, FrameIndex(frame), ExtentIndex(extent), expected});
  }
  FlashCompletion read(std::uint32_t frame, std::uint32_t extent, const Digest& expected) {
    return run({FlashRequest::Kind::kRead, true, 2, FrameIndex(frame), ExtentIndex(extent), expected});
  }

  FaultPlan plan_;
  NthFault nth_;
  EventLog log_;
  VirtualClock clock_;
  SimMemory memory_{{kBytes, 4, 4, 1}, plan_, nth_, log_};
  FlashCompletion read_file(bool has_expected, const Digest& expected, bool write = false, bool read_only = false) {
    const auto kind = write ? FlashRequest::Kind::kWrite : FlashRequest::Kind::kRead;
    return run({kind, has_expected, 3, FrameIndex(0), ExtentIndex(9), expected, {7, 4096, kBytes, read_only}});
  }

  SimFlash* device_ = nullptr;
  KnownFiles files_;
  CheckedFlash flash_{make_device(), memory_, kBytes, &files_};
};

TEST_F(CheckedFlashTest, ReadsBackWhatItWrote) {
  const FlashCompletion written = write(0, 2);
  EXPECT_EQ(written.status, Status::kOk);
  EXPECT_FALSE(written.unchanged);
  EXPECT_EQ(written.digest, digest(memory_.home(FrameIndex(0))));
  EXPECT_EQ(read(1, 2, written.digest).status, Status::kOk);
  EXPECT_EQ(digest(memory_.home(FrameIndex(1))), written.digest);
  std::vector<std::byte> buffer(kBytes);
  EXPECT_EQ(flash_.read_now({.has_expected = true, .extent = ExtentIndex(2), .expected = written.digest}, buffer),
            Status::kOk);
  EXPECT_EQ(flash_.read_now({.has_expected = true, .extent = ExtentIndex(2), .expected = {1, 1}}, buffer),
            Status::kCorrupt);
}

TEST_F(CheckedFlashTest, DoesNotWriteWhatFlashHas) {
  const FlashCompletion first = write(0, 0);
  const std::uint64_t writes = device_->counters().writes;
  const FlashCompletion second = write_if_not(0, 0, first.digest);
  EXPECT_TRUE(second.unchanged);
  EXPECT_EQ(second.status, Status::kOk);
  EXPECT_EQ(device_->counters().writes, writes);
  memory_.home(FrameIndex(0))[9] ^= std::byte{1};
  const FlashCompletion third = write_if_not(0, 0, first.digest);
  EXPECT_FALSE(third.unchanged);
  EXPECT_NE(third.digest, first.digest);
  EXPECT_EQ(device_->counters().writes, writes + 1);
}

TEST_F(CheckedFlashTest, ZerosAreNeitherWrittenNorRead) {
  static_cast<void>(write(0, 0));  // flash holds something else
  std::ranges::fill(memory_.home(FrameIndex(0)), std::byte{});
  const SimFlash::Counters before = device_->counters();
  const FlashCompletion written = write(0, 0);
  EXPECT_EQ(written.status, Status::kOk);
  EXPECT_TRUE(written.zeros);
  EXPECT_FALSE(written.unchanged);
  EXPECT_EQ(written.digest, digest(memory_.home(FrameIndex(0))));
  memory_.home(FrameIndex(1))[7] = std::byte{5};
  const FlashCompletion come = read(1, 0, written.digest);
  EXPECT_EQ(come.status, Status::kOk);
  EXPECT_TRUE(come.zeros);
  EXPECT_EQ(digest(memory_.home(FrameIndex(1))), written.digest);
  EXPECT_EQ(device_->counters().writes, before.writes);
  EXPECT_EQ(device_->counters().reads, before.reads);
  std::vector<std::byte> buffer(kBytes, std::byte{9});
  EXPECT_EQ(flash_.read_now({.has_expected = true, .extent = ExtentIndex(0), .expected = written.digest}, buffer),
            Status::kOk);
  EXPECT_EQ(digest(buffer), written.digest);
  // One byte of them changes, and it is written.
  memory_.home(FrameIndex(0))[kBytes - 1] = std::byte{1};
  EXPECT_FALSE(write_if_not(0, 0, written.digest).zeros);
  EXPECT_EQ(device_->counters().writes, before.writes + 1);
}

TEST_F(CheckedFlashTest, ReportsCorruptionInTransitAndAtRest) {
  const Digest good = write(0, 0).digest;
  plan_[Fault::kCorruptRead] = {1, 1};
  EXPECT_EQ(read(1, 0, good).status, Status::kCorrupt);
  plan_ = FaultPlan();
  EXPECT_EQ(read(1, 0, good).status, Status::kOk);
  plan_[Fault::kCorruptAtRest] = {1, 1};
  const Digest bad = write(0, 1).digest;
  plan_ = FaultPlan();
  EXPECT_EQ(read(1, 1, bad).status, Status::kCorrupt);
  std::vector<std::byte> buffer(kBytes);
  EXPECT_EQ(flash_.read_now({.has_expected = true, .extent = ExtentIndex(1), .expected = bad}, buffer),
            Status::kCorrupt);
}

TEST_F(CheckedFlashTest, AFileThatMayHaveChangedIsCheckedEachTime) {
  const FlashCompletion first = read_file(false, {});
  EXPECT_EQ(first.status, Status::kOk);
  EXPECT_EQ(first.digest, digest(memory_.home(FrameIndex(0))));
  files_.same = false;
  EXPECT_EQ(read_file(true, first.digest).status, Status::kOk);
  for (int i = 0; i < 40; ++i) EXPECT_EQ(read_file(true, {1, 1}).status, Status::kCorrupt);
}

TEST_F(CheckedFlashTest, OfAFileThatHasChangedWhatIsThereNowCounts) {
  const Digest now = read_file(false, {}).digest;
  files_.same = false;
  files_.other = true;
  const FlashCompletion read_again = read_file(true, {1, 1});
  EXPECT_EQ(read_again.status, Status::kOk);
  EXPECT_EQ(read_again.digest, now);
  // Our own store has no such excuse.
  static_cast<void>(write(0, 1));
  EXPECT_EQ(read(0, 1, {1, 1}).status, Status::kCorrupt);
}

TEST_F(CheckedFlashTest, AFileThatIsAsItWasIsCheckedNowAndThen) {
  const Digest known = read_file(false, {}).digest;
  for (int i = 0; i < 40; ++i) {
    const FlashCompletion again = read_file(true, known);
    EXPECT_EQ(again.status, Status::kOk);
    EXPECT_EQ(again.digest, known);
  }
  int found = 0;
  for (int i = 0; i < 160; ++i) found += read_file(true, {1, 1}).status == Status::kCorrupt ? 1 : 0;
  EXPECT_EQ(found, 10);
  // Of our own store, each.
  static_cast<void>(write(0, 1));
  for (int i = 0; i < 40; ++i) EXPECT_EQ(read(0, 1, {1, 1}).status, Status::kCorrupt);
}

TEST_F(CheckedFlashTest, WhatMayNotBeWrittenLeavesUnseen) {
  const Digest known = read_file(false, {}).digest;
  EXPECT_TRUE(read_file(true, known, true).unchanged);
  memory_.home(FrameIndex(0))[5] ^= std::byte{1};
  EXPECT_TRUE(read_file(true, known, true).homeless);
  const FlashCompletion left = read_file(true, known, true, true);
  EXPECT_TRUE(left.unchanged);
  EXPECT_EQ(left.digest, known);
}

TEST_F(CheckedFlashTest, PassesErrorsOn) {
  const Digest good = write(0, 0).digest;
  plan_[Fault::kReadError] = {1, 1};
  EXPECT_EQ(read(1, 0, good).status, Status::kIoError);
  plan_ = FaultPlan();
  plan_[Fault::kNoSpace] = {1, 1};
  EXPECT_EQ(write(0, 1).status, Status::kNoSpace);
  plan_ = FaultPlan();
  plan_.extents_available = 4;
  EXPECT_EQ(flash_.reserve(5), Status::kNoSpace);
}

TEST_F(CheckedFlashTest, SkippedAndWrittenCompleteOnceEach) {
  const Digest first = write(0, 0).digest;
  const std::array<FlashRequest, 3> requests{{
      {FlashRequest::Kind::kWrite, true, 0, FrameIndex(0), ExtentIndex(0), first},
      {FlashRequest::Kind::kWrite, false, 1, FrameIndex(1), ExtentIndex(1), {}},
      {FlashRequest::Kind::kWrite, false, 2, FrameIndex(2), ExtentIndex(2), {}},
  }};
  flash_.submit(requests);
  std::array<int, 3> seen{};
  std::array<FlashCompletion, 1> one;  // fewer than there are
  for (int tries = 0; tries < 20; ++tries) {
    flash_.wait(std::chrono::seconds(1));
    for (std::size_t i = flash_.poll(one); i > 0; --i) ++seen[one[0].token];
  }
  EXPECT_EQ(seen, (std::array<int, 3>{1, 1, 1}));
}

}  // namespace
}  // namespace ebb
