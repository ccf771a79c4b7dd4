// EncryptedFlash where the suite of tests/conformance does not lead: more writes than buffers, blocks of several units,
// and where the key lies.
#include "drivers/linux/flash/encrypted_flash.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/rng.h"
#include "drivers/linux/flash/flash_file.h"
#include "drivers/linux/flash/thread_flash.h"

namespace ebb {
namespace {

constexpr std::size_t kBytes = std::size_t{4} << 20;  // two buffers, and four units
constexpr std::uint32_t kDepth = 8;
using Blocks = std::vector<std::byte>;

class EncryptedFlashTest : public testing::Test {
 protected:
  void SetUp() override {
    FlashFile file = FlashFile::open(default_flash_directory());
    std::unique_ptr<ThreadFlash> threads;
    ASSERT_EQ(ThreadFlash::make(file, kDepth, threads), Status::kOk);
    std::unique_ptr<RawFlash> device = std::move(threads);
    std::string reason;
    if (EncryptedFlash::make({kBytes, kDepth}, device, flash_, reason) != Status::kOk) GTEST_SKIP() << reason;
    ASSERT_EQ(flash_->reserve(kDepth * kBytes), Status::kOk);
    blocks_ = {static_cast<std::byte*>(std::aligned_alloc(4096, kDepth * kBytes)), kDepth * kBytes};
    Rng rng(7);
    for (std::size_t at = 0; at < blocks_.size(); at += 8) {
      const std::uint64_t word = rng.next();
      std::memcpy(blocks_.data() + at, &word, 8);
    }
  }
  void TearDown() override {
    flash_.reset();
    std::free(blocks_.data());
  }
  std::span<std::byte> block(std::uint32_t i) const { return blocks_.subspan(i * kBytes, kBytes); }
  void run_all(bool write) {
    for (std::uint32_t i = 0; i < kDepth; ++i) flash_->submit({write, 100 + i, i * kBytes, block(i)});
    std::array<RawCompletion, 3> completions;
    for (std::size_t done = 0; done < kDepth;) {
      const std::size_t found = flash_->poll(completions);
      for (std::size_t i = 0; i < found; ++i) EXPECT_EQ(completions[i].status, Status::kOk);
      done += found;
      if (found == 0) flash_->wait(std::chrono::seconds(1));
    }
  }

  std::unique_ptr<EncryptedFlash> flash_;
  std::span<std::byte> blocks_;
};

TEST_F(EncryptedFlashTest, MoreWritesThanBuffersAllArrive) {
  ASSERT_LT(EncryptedFlash::buffer_bytes(kBytes, kDepth), kDepth * kBytes);
  const Blocks before(blocks_.begin(), blocks_.end());
  run_all(true);
  EXPECT_TRUE(std::ranges::equal(blocks_, before)) << "a frame stays what it is";
  std::memset(blocks_.data(), 0, blocks_.size());
  run_all(false);
  EXPECT_TRUE(std::ranges::equal(blocks_, before));
}

TEST_F(EncryptedFlashTest, ThereIsNoRoomBeyondItsTable) {
  EXPECT_EQ(flash_->reserve((kDepth + 1) * kBytes), Status::kNoSpace);
  EXPECT_EQ(flash_->reserve(kDepth * kBytes), Status::kOk);
}

class BlockCipherTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string reason;
    if (BlockCipher::make(cipher_, reason) != Status::kOk) GTEST_SKIP() << reason;
  }
  Blocks encrypted(const Blocks& plain, std::uint64_t offset, std::uint64_t generation) {
    Blocks bytes(plain.size());
    cipher_->encrypt({offset, generation}, plain, bytes);
    return bytes;
  }
  std::unique_ptr<BlockCipher> cipher_;
};

TEST_F(BlockCipherTest, EachPlaceGenerationAndKeyMakesOtherBytes) {
  const Blocks plain(3 * BlockCipher::kUnitBytes, std::byte{1});
  const Blocks first = encrypted(plain, 0, 1);
  EXPECT_EQ(encrypted(plain, 0, 1), first);
  EXPECT_NE(encrypted(plain, 4096, 1), first);
  EXPECT_NE(encrypted(plain, 0, 2), first);
  const auto unit = static_cast<std::ptrdiff_t>(BlockCipher::kUnitBytes);
  EXPECT_FALSE(std::equal(first.begin(), first.begin() + unit, first.begin() + unit)) << "two units alike";
  Blocks back = first;
  cipher_->decrypt_anywhere({0, 1}, back);
  EXPECT_EQ(back, plain);
  back = first;
  cipher_->decrypt({0, 2}, back);
  EXPECT_NE(back, plain);
  std::string reason;
  ASSERT_EQ(BlockCipher::make(cipher_, reason), Status::kOk);
  EXPECT_NE(encrypted(plain, 0, 1), first) << "two ciphers of one key";
}

struct Region {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  bool writable = false;
  std::string flags;
  bool has(const char* flag) const { return flags.find(flag) != std::string::npos; }
};

std::vector<Region> regions() {
  std::vector<Region> found;
  std::ifstream file("/proc/self/smaps");
  for (std::string line; std::getline(file, line);) {
    char mode[5] = "";
    Region region;
    if (std::sscanf(line.c_str(), "%lx-%lx %4s", &region.begin, &region.end, mode) == 3) {
      region.writable = mode[0] == 'r' && mode[1] == 'w';
      found.push_back(region);
    } else if (line.starts_with("VmFlags:")) {
      found.back().flags = line + " ";
    }
  }
  return found;
}

// Of all that this process has in memory, also after it has been used: not in libcrypto's heap, nor on a stack.
TEST_F(BlockCipherTest, TheKeyIsNowhereButInAPageThatIsInNoCoreDump) {
  const Blocks plain(BlockCipher::kUnitBytes, std::byte{1});
  Blocks bytes = encrypted(plain, 0, 1);
  cipher_->decrypt({0, 1}, bytes);
  cipher_->decrypt_anywhere({0, 1}, bytes);
  const std::vector<Region> all = regions();
  const auto page = std::ranges::find_if(all, [](const Region& r) { return r.has(" dd ") && r.has(" lo "); });
  if (page == all.end()) GTEST_SKIP() << "nothing may be locked here (ulimit -l)";
  ASSERT_EQ(page->end - page->begin, 4096u);
  const void* const key = reinterpret_cast<const void*>(page->begin);
  const int memory = ::open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
  std::vector<std::byte> copy;
  for (const Region& region : all) {
    if (!region.writable || region.begin == page->begin) continue;
    copy.resize(region.end - region.begin);
    const ssize_t got = ::pread(memory, copy.data(), copy.size(), static_cast<off_t>(region.begin));
    if (got <= 0) continue;
    EXPECT_EQ(::memmem(copy.data(), static_cast<std::size_t>(got), key, 16), nullptr)
        << "at " << std::hex << region.begin;
  }
  ::close(memory);
}

}  // namespace
}  // namespace ebb
