// Files that are mapped into a runtime: what is in them is there, under any budget, on every driver; they are never
// written; and a file that is not what it was is not taken for what it was.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/rng.h"
#include "base/test/in_a_child.h"
#include "ebb/runtime.h"
#include "noise_file.h"

namespace ebb {
namespace {

constexpr std::uint64_t kBlock = 64 * kKiB;
constexpr std::uint64_t kBudget = 3 * kMiB;
constexpr std::uint64_t kBytes = 12 * kMiB + 20 * kKiB + 123;  // ends within a block, and within a page
constexpr unsigned kSecondsMax = 60;

bool same(std::span<const std::byte> left, std::span<const std::byte> right) {
  return left.size() == right.size() && std::memcmp(left.data(), right.data(), left.size()) == 0;
}

class MapFileTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    try {
      runtime_ = Runtime::open(options());
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }
  static Options options() {
    Options options;
    options.memory = kBudget;
    options.block_bytes = kBlock;
    options.flash = ::testing::TempDir();
    options.flash_bytes = 64 * kMiB;
    options.memory_driver = GetParam();
    return options;
  }
  std::shared_ptr<Runtime> runtime_;
};

TEST_P(MapFileTest, WhatIsInAFileIsThereAndLeavesWithoutAWrite) {
  const NoiseFile file(kBytes);
  const std::span<std::byte> mapped = runtime_->map_file(file.path());
  ASSERT_EQ(mapped.size(), kBytes);
  EXPECT_TRUE(runtime_->manages(mapped.data()));
  for (int pass = 0; pass < 3; ++pass) ASSERT_TRUE(same(mapped, file.content())) << "pass " << pass;
  const std::uint64_t whole = (kBytes + kBlock - 1) / kBlock * kBlock;
  for (std::uint64_t i = kBytes; i < whole; i += 7) ASSERT_EQ(mapped.data()[i], std::byte{}) << "beyond the end";
  const Stats stats = runtime_->stats();
  EXPECT_LE(stats.peak_resident_bytes, kBudget);
  EXPECT_EQ(stats.evicted_bytes, 0u);
  EXPECT_EQ(stats.flash_bytes, 0u);
  EXPECT_GT(stats.fetched_bytes, 2 * kBytes);
  runtime_->unmap_file(mapped);
}

TEST_P(MapFileTest, APartOfAFileIsMappedFromAnyPage) {
  const NoiseFile file(kBytes);
  const std::uint64_t offset = 5 * 4096;
  const std::span<std::byte> some = runtime_->map_file(file.path(), offset, 3 * kBlock + 100);
  EXPECT_TRUE(same(some, file.content().subspan(offset, 3 * kBlock + 100)));
  EXPECT_EQ(some.data()[some.size()], std::byte{}) << "beyond what was mapped";
  const std::span<std::byte> rest = runtime_->map_file(file.path(), offset);
  EXPECT_TRUE(same(rest, file.content().subspan(offset)));
}

TEST_P(MapFileTest, LaunchesFindTheirPartsOfAFile) {
  const NoiseFile file(kBytes);
  const std::span<std::byte> mapped = runtime_->map_file(file.path());
  constexpr std::uint64_t kPart = 200 * kKiB + 17;  // shares its blocks with its neighbours
  for (int pass = 0; pass < 20; ++pass) {
    for (std::uint64_t at = 0; at + kPart <= kBytes; at += kPart) {
      const Access access{mapped.data() + at, kPart, mapped.data()};
      const std::uint64_t ticket = runtime_->announce(1, {&access, 1});
      ASSERT_TRUE(same(mapped.subspan(at, kPart), file.content().subspan(at, kPart)));
      runtime_->retire(ticket);
    }
  }
  EXPECT_EQ(runtime_->stats().evicted_bytes, 0u);
}

// A part of it stays, where recency would keep nothing until it is needed again.
TEST_P(MapFileTest, ALoopThatIsNotAnnouncedKeepsWhatFits) {
  const NoiseFile file(kBytes);
  Options options = this->options();
  options.memory = 8 * kMiB;
  runtime_.reset();
  runtime_ = Runtime::open(options);
  const std::span<std::byte> mapped = runtime_->map_file(file.path());
  constexpr std::uint64_t kLearned = 2, kPasses = 6;
  std::uint64_t before = 0;
  for (std::uint64_t pass = 0; pass < kPasses; ++pass) {
    if (pass == kLearned) before = runtime_->stats().fetched_bytes;
    for (std::uint64_t at = 0; at < kBytes; at += kBlock) {
      const std::uint64_t bytes = std::min(kBlock, kBytes - at);
      ASSERT_TRUE(same(mapped.subspan(at, bytes), file.content().subspan(at, bytes)));
      ::usleep(100);  // something is done with it
    }
  }
  const std::uint64_t fetched = (runtime_->stats().fetched_bytes - before) / (kPasses - kLearned);
  EXPECT_LT(fetched, kBytes / 10 * 8) << "a pass, of " << kBytes;  // about half where all goes well
}

TEST_P(MapFileTest, WhatTheProgramWritesIsItsOwn) {
  const NoiseFile file(kBytes);
  std::vector<std::byte> expected(file.content().begin(), file.content().end());
  const std::span<std::byte> mapped = runtime_->map_file(file.path());
  Rng rng(7);
  std::set<std::uint64_t> blocks;
  for (int i = 0; i < 60; ++i) {
    const std::uint64_t at = rng.below(kBytes);
    expected[at] = mapped[at] = static_cast<std::byte>(rng.next());
    blocks.insert(at / kBlock);
  }
  for (int pass = 0; pass < 2; ++pass) ASSERT_TRUE(same(mapped, expected));
  const Stats stats = runtime_->stats();
  EXPECT_GT(stats.evicted_bytes, 0u);
  // Of the mapping's last blocks some may still be in memory.
  EXPECT_LE(stats.rewritten_bytes, blocks.size() * kBlock);
  EXPECT_GE(stats.rewritten_bytes + kBudget, blocks.size() * kBlock);
  EXPECT_TRUE(file.is_as_made());
}

TEST_P(MapFileTest, UnmappingGivesBackAddressesAndDescriptor) {
  const NoiseFile file(kBytes);
  const auto descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator{});
  };
  const auto before = descriptors();
  for (int i = 0; i < 200; ++i) {
    const std::span<std::byte> one = runtime_->map_file(file.path());
    const std::span<std::byte> other = runtime_->map_file(file.path(), 4096);
    ASSERT_EQ(one[4096 + static_cast<std::size_t>(i)], other[static_cast<std::size_t>(i)]);
    runtime_->unmap_file(one.first(kBlock * 10));
    ASSERT_EQ(one[kBlock * 10], file.content()[kBlock * 10]) << "of a mapping of which the beginning was unmapped";
    runtime_->unmap_file(one.subspan(kBlock * 10));
    runtime_->unmap_file(other);
  }
  for (int tries = 0; tries < 100 && descriptors() > before; ++tries) ::usleep(20'000);
  EXPECT_EQ(descriptors(), before);
  EXPECT_EQ(runtime_->stats().live_bytes, 0u);
}

TEST_P(MapFileTest, AForkedChildSeesTheFile) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer starts no threads after fork";
#endif
  const NoiseFile file(kBytes);
  std::vector<std::byte> expected(file.content().begin(), file.content().end());
  const std::span<std::byte> mapped = runtime_->map_file(file.path());
  static_cast<void>(same(mapped.first(kBytes / 2), expected));
  expected[9 * kBlock + 1] = mapped[9 * kBlock + 1] = std::byte{42};
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(kSecondsMax);
    ::_exit(same(mapped, expected) ? 0 : 1);
  }
  mapped[9 * kBlock + 1] = std::byte{43};
  runtime_->unmap_file(mapped);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_P(MapFileTest, AFileSystemWithoutDirectReadingWillDo) {
  if (::access("/dev/shm", W_OK) != 0) GTEST_SKIP() << "no RAM disk here";
  const NoiseFile file(kBytes, "/dev/shm");
  const std::span<std::byte> mapped = runtime_->map_file(file.path());
  for (int pass = 0; pass < 2; ++pass) EXPECT_TRUE(same(mapped, file.content()));
}

// The file that was mapped is the same, whatever becomes of its name.
TEST_P(MapFileTest, AFileThatIsReplacedOrGrowsIsWhatItWas) {
  const NoiseFile file(kBytes);
  const std::span<std::byte> mapped = runtime_->map_file(file.path());
  ASSERT_TRUE(same(mapped, file.content()));
  std::ofstream(file.path(), std::ios::binary | std::ios::app) << "more";
  EXPECT_TRUE(same(mapped, file.content()));
  {
    const NoiseFile other(kBlock);
    std::filesystem::copy_file(other.path(), file.path() + ".new");
  }
  std::filesystem::rename(file.path() + ".new", file.path());
  EXPECT_TRUE(same(mapped, file.content()));
  std::filesystem::remove(file.path());
  EXPECT_TRUE(same(mapped, file.content()));
}

TEST_P(MapFileTest, AFileWithHoles) {
  const NoiseFile file(kBytes);
  std::filesystem::resize_file(file.path(), 0);
  std::filesystem::resize_file(file.path(), kBytes);
  std::vector<std::byte> expected(kBytes);
  std::fstream writer(file.path(), std::ios::binary | std::ios::in | std::ios::out);
  for (std::uint64_t at = 4321; at < kBytes; at += 3 * kBlock + 4096) {
    expected[at] = std::byte{'x'};
    writer.seekp(static_cast<std::streamoff>(at)).put('x');
  }
  writer.close();
  const std::span<std::byte> mapped = runtime_->map_file(file.path());
  for (int pass = 0; pass < 2; ++pass) EXPECT_TRUE(same(mapped, expected));
}

// A touch fails, after `change` was made to a file that had been read once; and before that it is said of which file.
template <typename Change>
void expect_refused(const Options& options, const char* what, const Change& change) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer starts no threads after fork";
#endif
  const NoiseFile file(kBytes);
  const std::string said = file.path() + ".said";
  const auto run = [&] {
    std::signal(SIGBUS, SIG_DFL);
    if (std::freopen(said.c_str(), "w", stderr) == nullptr) return 4;
    const auto runtime = Runtime::open(options);
    const std::span<std::byte> mapped = runtime->map_file(file.path());
    if (!same(mapped, file.content())) return 1;
    change(file.path());
    // What is in memory may still be read.
    return same(mapped, file.content()) && same(mapped, file.content()) ? 2 : 3;
  };
  expect_end(in_a_child(kSecondsMax, run), kSignalled + SIGBUS);
  std::ifstream text(said);
  const std::string all{std::istreambuf_iterator<char>(text), {}};
  EXPECT_NE(all.find("'" + file.path() + "' " + what), std::string::npos) << all;
  std::filesystem::remove(said);
}

TEST_P(MapFileTest, WhatIsReadAgainOfAFileThatHasChangedIsAsItIsNow) {
  const NoiseFile file(kBytes);
  const std::span<std::byte> mapped = runtime_->map_file(file.path());
  ASSERT_TRUE(same(mapped, file.content()));
  std::vector<std::byte> changed(file.content().begin(), file.content().end());
  std::fstream writer(file.path(), std::ios::binary | std::ios::in | std::ios::out);
  for (std::uint64_t at = 100; at < kBytes; at += kBlock) {
    changed[at] ^= std::byte{0x55};
    writer.seekp(static_cast<std::streamoff>(at)).put(static_cast<char>(changed[at]));
  }
  writer.close();
  std::uint64_t as_now = 0;
  for (std::uint64_t at = 0; at < kBytes; at += kBlock) {
    const std::uint64_t bytes = std::min(kBlock, kBytes - at);
    const auto in = [&](std::span<const std::byte> all) { return all.subspan(at, bytes); };
    const bool now = same(mapped.subspan(at, bytes), in(changed));
    EXPECT_TRUE(now || same(mapped.subspan(at, bytes), in(file.content()))) << at;
    as_now += now ? 1 : 0;
  }
  // What was in memory may stay as it was: it is mapped private.
  EXPECT_GE(as_now, (kBytes - kBudget) / kBlock);
}

TEST_P(MapFileTest, AFileThatHasShrunkIsNotTakenForWhatItWas) {
  runtime_.reset();
  expect_refused(options(), "cannot be read any more, or has shrunk",
                 [](const std::string& path) { std::filesystem::resize_file(path, kBlock + 5); });
}

TEST_P(MapFileTest, WhatCannotBeMappedIsRefusedWithTheReason) {
  const NoiseFile file(kBytes);
  const auto said = [&](const std::string& path, std::uint64_t offset, std::uint64_t bytes) -> std::string {
    try {
      runtime_->map_file(path, offset, bytes);
    } catch (const Error& error) {
      return error.what();
    }
    return "mapped";
  };
  EXPECT_NE(said("/nowhere/at/all", 0, 0).find("No such file"), std::string::npos);
  EXPECT_NE(said(::testing::TempDir(), 0, 0).find("no regular file"), std::string::npos);
  EXPECT_NE(said(file.path(), 100, 0).find("multiple of 4096"), std::string::npos);
  EXPECT_NE(said(file.path(), kBytes / 4096 * 4096 + 4096, 0).find("ends at byte"), std::string::npos);
  EXPECT_NE(said(file.path(), 0, kBytes + 1).find("bytes from there on"), std::string::npos);
  const int writer = ::open(file.path().c_str(), O_WRONLY | O_CLOEXEC);
  EXPECT_NE(said(file.path(), 0, 0).find("open for writing"), std::string::npos);
  ::close(writer);
  EXPECT_EQ(said(file.path(), 0, 0), "mapped");
}

INSTANTIATE_TEST_SUITE_P(Drivers, MapFileTest, testing::Values("move", "remap"),
                         [](const auto& driver) { return std::string(driver.param); });

}  // namespace
}  // namespace ebb
