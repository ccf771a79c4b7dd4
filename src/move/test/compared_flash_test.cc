// CheckedFlash that compares bytes before it takes a block for unchanged, on a device of which a test may change what
// is there: as if two contents had the same digest.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <deque>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "move/checked_flash.h"
#include "port/still_memory.h"

namespace ebb {
namespace {

constexpr std::size_t kBytes = std::size_t{4} << 20;  // of which there are two buffers
constexpr std::uint32_t kDepth = 4;
using Proof = CheckedFlash::Proof;
using Kind = FlashRequest::Kind;
using Content = std::vector<std::byte>;

Content noise(std::uint64_t seed) {
  Content content(kBytes);
  Rng rng(seed);
  for (std::size_t at = 0; at < kBytes; at += 8) {
    const std::uint64_t word = rng.next();
    std::memcpy(content.data() + at, &word, 8);
  }
  return content;
}

// Where what is not in a file lies in `store`, by extent, and a file's number is its content's seed.
class MemoryDevice final : public RawFlash {
 public:
  std::uint32_t depth() const override { return kDepth; }
  void submit(const RawRequest& request) override { pending_.push_back(request); }
  std::size_t poll(std::span<RawCompletion> completions) override {
    std::size_t found = 0;
    for (; found < completions.size() && !pending_.empty(); ++found) {
      completions[found] = {pending_.front().token, move(pending_.front())};
      pending_.pop_front();
    }
    return found;
  }
  void wait(std::chrono::nanoseconds) override {}
  void wake() override {}
  Status reserve(std::uint64_t bytes) override {
    store.resize(bytes / kBytes, Content(kBytes));
    return Status::kOk;
  }
  Status read_now(const RawRequest& request) override { return move(request); }

  std::vector<Content> store;
  bool fails_to_read = false;
  int reads = 0;
  int writes = 0;

 private:
  Status move(const RawRequest& request) {
    ++(request.write ? writes : reads);
    if (!request.write && fails_to_read) return Status::kIoError;
    Content file;
    if (request.file != FilePlace::kNoFile) file = noise(static_cast<std::uint64_t>(request.file));
    Content& place = request.file != FilePlace::kNoFile ? file : store.at(request.offset / kBytes);
    if (request.write) {
      std::ranges::copy(request.bytes, place.begin());
    } else {
      std::copy_n(place.begin(), request.bytes.size(), request.bytes.begin());
    }
    return Status::kOk;
  }
  std::deque<RawRequest> pending_;
};

class Frames final : public StillMemory {
 public:
  std::span<std::byte> home(FrameIndex frame) override { return frames_.at(frame.value()); }

 private:
  std::vector<Content> frames_{kDepth, Content(kBytes)};
};

class ComparedFlashTest : public testing::TestWithParam<Proof> {
 protected:
  ComparedFlashTest() {
    auto device = std::make_unique<MemoryDevice>();
    device_ = device.get();
    flash_ = std::make_unique<CheckedFlash>(std::move(device), memory_, kBytes, nullptr, GetParam());
    EXPECT_EQ(flash_->reserve(kDepth), Status::kOk);
    for (std::uint32_t i = 0; i < kDepth; ++i) std::ranges::copy(noise(i), memory_.home(FrameIndex(i)).begin());
  }
  static bool compares() { return GetParam() == Proof::kContent; }

  // By token.
  std::vector<FlashCompletion> run(std::span<const FlashRequest> requests) {
    flash_->submit(requests);
    std::vector<FlashCompletion> done(requests.size());
    std::array<FlashCompletion, 2> some;
    std::size_t count = 0;
    for (int tries = 0; tries < 100 && count < requests.size(); ++tries) {
      flash_->wait(std::chrono::seconds(1));
      const std::size_t found = flash_->poll(some);
      for (const FlashCompletion& each : std::span(some).first(found)) done.at(each.token) = each;
      count += found;
    }
    EXPECT_EQ(count, requests.size());
    return done;
  }
  FlashCompletion run(const FlashRequest& request) { return run({&request, 1}).front(); }
  static FlashRequest write(std::uint32_t frame, std::uint32_t extent) {
    FlashRequest request;
    request.kind = Kind::kWrite;
    request.frame = FrameIndex(frame);
    request.extent = ExtentIndex(extent);
    return request;
  }
  FlashCompletion evict(std::uint32_t frame, std::uint32_t extent, std::uint32_t copy, const Digest& known) {
    FlashRequest request = write(frame, extent);
    request.has_expected = true;
    request.expected = known;
    request.copy = ExtentIndex(copy);
    return run(request);
  }

  Frames memory_;
  MemoryDevice* device_ = nullptr;
  std::unique_ptr<CheckedFlash> flash_;
};

TEST_P(ComparedFlashTest, AnUnchangedBlockIsNotWritten) {
  const Digest known = run(write(0, 1)).digest;
  EXPECT_TRUE(evict(0, 1, 1, known).unchanged);
  EXPECT_EQ(device_->writes, 1);
  EXPECT_EQ(device_->reads, compares() ? 1 : 0);
}

TEST_P(ComparedFlashTest, AnEqualDigestIsNoProof) {
  const Digest known = run(write(0, 1)).digest;
  device_->store[1].back() ^= std::byte{1};
  const FlashCompletion done = evict(0, 1, 1, known);
  EXPECT_EQ(done.status, Status::kOk);
  EXPECT_EQ(done.unchanged, !compares());
  EXPECT_EQ(done.digest, known);
  EXPECT_EQ(std::ranges::equal(device_->store[1], memory_.home(FrameIndex(0))), compares());
}

TEST_P(ComparedFlashTest, TheCopyMayLieElsewhereThanTheBlockIsToGo) {
  const Digest known = run(write(0, 1)).digest;
  EXPECT_TRUE(evict(0, 2, 1, known).unchanged);
  device_->store[1].front() ^= std::byte{1};
  EXPECT_EQ(evict(0, 2, 1, known).unchanged, !compares());
  EXPECT_EQ(std::ranges::equal(device_->store[2], memory_.home(FrameIndex(0))), compares());
}

TEST_P(ComparedFlashTest, ACopyThatCannotBeReadIsWrittenAnew) {
  const Digest known = run(write(0, 1)).digest;
  device_->fails_to_read = true;
  const FlashCompletion done = evict(0, 1, 1, known);
  EXPECT_EQ(done.status, Status::kOk);
  EXPECT_EQ(done.unchanged, !compares());
  EXPECT_EQ(device_->writes, compares() ? 2 : 1);
}

TEST_P(ComparedFlashTest, ZerosHaveNoCopyToCompareWith) {
  std::ranges::fill(memory_.home(FrameIndex(0)), std::byte{});
  const FlashCompletion zeros = run(write(0, 1));
  EXPECT_TRUE(zeros.zeros);
  EXPECT_TRUE(evict(0, 1, 1, zeros.digest).unchanged);
  EXPECT_EQ(device_->reads + device_->writes, 0);
}

TEST_P(ComparedFlashTest, AFileIsComparedAndWhatDiffersLeavesIt) {
  FlashRequest request = write(0, 9);
  request.kind = Kind::kRead;
  request.place = {7, 4096, kBytes / 2};
  request.expected = run(request).digest;
  request.kind = Kind::kWrite;
  request.has_expected = true;
  EXPECT_TRUE(run(request).unchanged);
  EXPECT_EQ(device_->reads, compares() ? 2 : 1);
  request.place.file = 8;  // of which is said that it has the same digest
  EXPECT_EQ(run(request).unchanged, !compares());
  EXPECT_EQ(run(request).homeless, compares());
  EXPECT_EQ(device_->writes, 0);
}

TEST_P(ComparedFlashTest, MoreComparisonsThanBuffersAllEnd) {
  ASSERT_LT(CheckedFlash::buffer_bytes(kBytes, kDepth), kDepth * kBytes);
  std::vector<FlashRequest> requests;
  for (std::uint32_t i = 0; i < kDepth; ++i) {
    requests.push_back(write(i, i));
    requests.back().token = i;
    requests.back().copy = ExtentIndex(i);
  }
  const std::vector<FlashCompletion> written = run(requests);
  for (std::uint32_t i = 0; i < kDepth; ++i) {
    requests[i].has_expected = true;
    requests[i].expected = written[i].digest;
  }
  device_->store[2].front() ^= std::byte{1};
  const std::vector<FlashCompletion> left = run(requests);
  for (std::uint32_t i = 0; i < kDepth; ++i) EXPECT_EQ(left[i].unchanged, i != 2 || !compares()) << i;
}

INSTANTIATE_TEST_SUITE_P(Proofs, ComparedFlashTest, testing::Values(Proof::kDigest, Proof::kContent),
                         [](const auto& each) { return each.param == Proof::kContent ? "Content" : "Digest"; });

}  // namespace
}  // namespace ebb
