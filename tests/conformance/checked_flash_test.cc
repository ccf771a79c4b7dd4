// What CheckedFlash finds out on the real drivers: bits that flip on the disk behind their back, and blocks that are
// older than they should be, or another's. In the default flash directory.
#include "move/checked_flash.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <vector>

#include "base/rng.h"
#include "flash_worlds.h"
#include "port/still_memory.h"

namespace ebb::conformance {
namespace {

constexpr std::size_t kBytes = FlashWorld::kBytes;
constexpr std::uint32_t kExtents = 8;
constexpr std::uint32_t kFlips = 10'000;
constexpr std::size_t kPage = 4096;

// The buffers of a world.
class Buffers final : public StillMemory {
 public:
  explicit Buffers(const FlashWorld& world) : world_(world) {}
  std::span<std::byte> home(FrameIndex frame) override { return world_.buffer(frame.value()); }

 private:
  const FlashWorld& world_;
};

class CheckedFlashOnDisk : public testing::TestWithParam<FlashDriver> {
 protected:
  void SetUp() override {
    std::string reason;
    world_ = make_flash_world(GetParam(), reason);
    if (world_ == nullptr) GTEST_SKIP() << reason;
    memory_ = std::make_unique<Buffers>(*world_);
    flash_ = std::make_unique<CheckedFlash>(std::move(world_->flash), *memory_, kBytes);
    ASSERT_EQ(flash_->reserve(kExtents), Status::kOk);
    page_ = world_->buffer(FlashWorld::kDepth - 1).first(kPage);
    for (std::uint32_t i = 0; i < kExtents; ++i) digests_.push_back(write(i));
  }
  void TearDown() override { flash_.reset(); }

  FlashCompletion run(const FlashRequest& request) {
    flash_->submit({&request, 1});
    std::array<FlashCompletion, 1> completion;
    while (flash_->poll(completion) == 0) flash_->wait(std::chrono::milliseconds(100));
    return completion[0];
  }
  // New content.
  Digest write(std::uint32_t extent) {
    for (std::byte& byte : memory_->home(FrameIndex(0))) byte = static_cast<std::byte>(rng_.next());
    const FlashCompletion done = run({FlashRequest::Kind::kWrite, false, 0, FrameIndex(0), ExtentIndex(extent), {}});
    EXPECT_EQ(done.status, Status::kOk);
    return done.digest;
  }
  Status read(std::uint32_t extent) {
    return run({FlashRequest::Kind::kRead, true, 0, FrameIndex(1), ExtentIndex(extent), digests_[extent]}).status;
  }
  // On the disk, past the driver.
  void flip(std::uint64_t bit) {
    const auto offset = static_cast<off_t>(bit / 8 / kPage * kPage);
    ASSERT_EQ(::pread(world_->fd, page_.data(), kPage, offset), static_cast<ssize_t>(kPage));
    page_[bit / 8 % kPage] ^= static_cast<std::byte>(1u << (bit % 8));
    ASSERT_EQ(::pwrite(world_->fd, page_.data(), kPage, offset), static_cast<ssize_t>(kPage));
  }
  std::vector<std::byte> on_disk(std::uint32_t extent) {
    const std::span<std::byte> buffer = world_->buffer(2);
    EXPECT_EQ(::pread(world_->fd, buffer.data(), kBytes, static_cast<off_t>(extent * kBytes)),
              static_cast<ssize_t>(kBytes));
    return {buffer.begin(), buffer.end()};
  }
  void put_on_disk(std::uint32_t extent, const std::vector<std::byte>& content) {
    const std::span<std::byte> buffer = world_->buffer(2);
    std::ranges::copy(content, buffer.begin());
    EXPECT_EQ(::pwrite(world_->fd, buffer.data(), kBytes, static_cast<off_t>(extent * kBytes)),
              static_cast<ssize_t>(kBytes));
  }

  Rng rng_{20};
  std::unique_ptr<FlashWorld> world_;
  std::unique_ptr<Buffers> memory_;
  std::unique_ptr<CheckedFlash> flash_;
  std::span<std::byte> page_;
  std::vector<Digest> digests_;  // by extent
};

TEST_P(CheckedFlashOnDisk, EveryFlippedBitIsFound) {
  std::uint32_t found = 0;
  for (std::uint32_t i = 0; i < kFlips; ++i) {
    const std::uint64_t bit = rng_.below(kExtents * kBytes * 8);
    ASSERT_NO_FATAL_FAILURE(flip(bit));
    const auto extent = static_cast<std::uint32_t>(bit / 8 / kBytes);
    found += read(extent) == Status::kCorrupt ? 1 : 0;
    ASSERT_NO_FATAL_FAILURE(flip(bit));
    if (i % 16 != 0) continue;
    ASSERT_EQ(read(extent), Status::kOk) << "as it was again";
  }
  EXPECT_EQ(found, kFlips);
}

TEST_P(CheckedFlashOnDisk, AnOlderVersionIsFound) {
  for (std::uint32_t extent = 0; extent < kExtents; ++extent) {
    const std::vector<std::byte> older = on_disk(extent);
    digests_[extent] = write(extent);
    EXPECT_EQ(read(extent), Status::kOk);
    put_on_disk(extent, older);
    EXPECT_EQ(read(extent), Status::kCorrupt);
  }
}

TEST_P(CheckedFlashOnDisk, AnotherBlockIsFound) {
  for (std::uint32_t extent = 0; extent < kExtents; ++extent) {
    const std::vector<std::byte> own = on_disk(extent);
    put_on_disk(extent, on_disk((extent + 1) % kExtents));
    EXPECT_EQ(read(extent), Status::kCorrupt);
    put_on_disk(extent, own);
    EXPECT_EQ(read(extent), Status::kOk);
  }
}

TEST_P(CheckedFlashOnDisk, ATruncatedFileIsFound) {
  ASSERT_EQ(::ftruncate(world_->fd, 2 * kBytes + kBytes / 2), 0);
  EXPECT_EQ(read(1), Status::kOk);
  EXPECT_NE(read(2), Status::kOk);
  EXPECT_NE(read(3), Status::kOk);
}

INSTANTIATE_TEST_SUITE_P(Drivers, CheckedFlashOnDisk,
                         testing::Values(FlashDriver::kUring, FlashDriver::kThreads, FlashDriver::kEncryptedUring,
                                         FlashDriver::kEncryptedThreads),
                         [](const auto& each) { return name(each.param); });

}  // namespace
}  // namespace ebb::conformance
