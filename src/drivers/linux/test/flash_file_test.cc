// FlashFile: what it refuses, with which words, and that the file is nobody else's.
#include "drivers/linux/flash/flash_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>

#include "base/test/in_a_child.h"

namespace ebb {
namespace {

constexpr std::size_t kBytes = 64 * 1024;

class FlashFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = default_flash_directory() + "/ebb-test-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    try {
      FlashFile::open(directory_);
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();  // the default directory is a RAM disk, say
    }
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  // The words with which a directory is refused.
  static std::string refusal(const std::string& directory) {
    try {
      FlashFile::open(directory);
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::kInvalid);
      return error.what();
    }
    return "not refused";
  }
  static bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }
  // Runs in a child process, as a user without privileges where we have them.
  static int as_somebody(const std::function<int()>& run) {
    return in_a_child(60, [&] { return ::geteuid() == 0 && ::setresuid(65534, 65534, 65534) != 0 ? 98 : run(); });
  }

  std::string directory_;
};

TEST_F(FlashFileTest, RefusesAMissingDirectory) {
  const std::string text = refusal(directory_ + "/missing");
  EXPECT_TRUE(contains(text, directory_ + "/missing") && contains(text, "No such file")) << text;
  EXPECT_TRUE(contains(text, "--flash DIR")) << text;
}

TEST_F(FlashFileTest, RefusesAFile) {
  std::ofstream(directory_ + "/file") << "text";
  const std::string text = refusal(directory_ + "/file");
  EXPECT_TRUE(contains(text, "is not a directory") && contains(text, "--flash DIR")) << text;
}

TEST_F(FlashFileTest, RefusesARamDisk) {
  struct statfs file_system {};
  constexpr long kTmpfsMagic = 0x01021994;
  if (::statfs("/dev/shm", &file_system) != 0 || file_system.f_type != kTmpfsMagic) GTEST_SKIP() << "no RAM disk here";
  const std::string text = refusal("/dev/shm");
  EXPECT_TRUE(contains(text, "RAM disk") && contains(text, "--flash DIR")) << text;
}

TEST_F(FlashFileTest, RefusesADirectoryThatCannotBeWritten) {
  ASSERT_EQ(::chmod(directory_.c_str(), 0555), 0);
  EXPECT_EQ(as_somebody([&] { return contains(refusal(directory_), "is not writable: Permission denied") ? 0 : 1; }),
            0);
}

TEST_F(FlashFileTest, RefusesADirectoryThatCannotBeSeen) {
  ASSERT_EQ(::mkdir((directory_ + "/inner").c_str(), 0777), 0);
  ASSERT_EQ(::chmod(directory_.c_str(), 0000), 0);
  EXPECT_EQ(as_somebody([&] { return contains(refusal(directory_ + "/inner"), "Permission denied") ? 0 : 1; }), 0);
  ASSERT_EQ(::chmod(directory_.c_str(), 0700), 0);
}

TEST_F(FlashFileTest, HasNoNameAndIsItsOwnersOnly) {
  ::umask(0);
  FlashFile file = FlashFile::open(directory_);
  ASSERT_EQ(file.grow(kBytes), Status::kOk);
  EXPECT_TRUE(std::filesystem::is_empty(directory_));
  struct stat status {};
  ASSERT_EQ(::fstat(file.fd(), &status), 0);
  EXPECT_EQ(status.st_nlink, 0u);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  EXPECT_EQ(::fcntl(file.fd(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  EXPECT_EQ(file.direct(), (::fcntl(file.fd(), F_GETFL) & O_DIRECT) != 0);
}

TEST_F(FlashFileTest, GrowTakesItsSpaceAtOnceAndKeepsIt) {
  FlashFile file = FlashFile::open(directory_);
  ASSERT_EQ(file.grow(4 * kBytes), Status::kOk);
  struct stat status {};
  ASSERT_EQ(::fstat(file.fd(), &status), 0);
  EXPECT_EQ(status.st_size, static_cast<off_t>(4 * kBytes));
  EXPECT_GE(static_cast<std::size_t>(status.st_blocks) * 512, 4 * kBytes) << "space that is promised and not there";
  ASSERT_EQ(file.grow(kBytes), Status::kOk);
  ASSERT_EQ(::fstat(file.fd(), &status), 0);
  EXPECT_EQ(status.st_size, static_cast<off_t>(4 * kBytes));
}

TEST_F(FlashFileTest, GrowBeyondTheDiskIsNoSpaceAndChangesNothing) {
  FlashFile file = FlashFile::open(directory_);
  ASSERT_EQ(file.grow(kBytes), Status::kOk);
  const std::uint64_t free_bytes = file.free_bytes();
  ASSERT_GT(free_bytes, 0u);
  // Far more than any disk has, so that the attempt does not fill this one on its way.
  EXPECT_EQ(file.grow(std::uint64_t{1} << 60), Status::kNoSpace);
  EXPECT_EQ(file.grow(2 * kBytes), Status::kOk);
}

TEST_F(FlashFileTest, IsNeverLargerThanWhatIsLeftAndThanTheProcessMayMakeAFile) {
  const FlashFile file = FlashFile::open(directory_);
  EXPECT_EQ(file.most_bytes(kBytes), kBytes);
  EXPECT_GT(file.most_bytes(0), kBytes);
  EXPECT_LT(file.most_bytes(std::uint64_t{1} << 60), std::uint64_t{1} << 60) << "more than the disk has";
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{kBytes, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::uint64_t chosen = file.most_bytes(0), wanted = file.most_bytes(2 * kBytes);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(chosen, kBytes);
  EXPECT_EQ(wanted, kBytes);
}

TEST_F(FlashFileTest, ReadsBackWhatItWrote) {
  FlashFile file = FlashFile::open(directory_);
  ASSERT_EQ(file.grow(4 * kBytes), Status::kOk);
  const std::unique_ptr<void, void (*)(void*)> memory(std::aligned_alloc(4096, kBytes), std::free);
  const std::span<std::byte> buffer(static_cast<std::byte*>(memory.get()), kBytes);
  std::memset(buffer.data(), 'w', kBytes);
  ASSERT_EQ(file.write(3 * kBytes, buffer), Status::kOk);
  std::memset(buffer.data(), 0, kBytes);
  ASSERT_EQ(file.read(3 * kBytes, buffer), Status::kOk);
  EXPECT_EQ(static_cast<char>(buffer.front()), 'w');
  EXPECT_EQ(static_cast<char>(buffer.back()), 'w');
  EXPECT_EQ(file.read(4 * kBytes, buffer), Status::kIoError);
}

TEST_F(FlashFileTest, MovingHandsOverTheDescriptor) {
  FlashFile file = FlashFile::open(directory_);
  const int fd = file.fd();
  FlashFile other = std::move(file);
  EXPECT_EQ(other.fd(), fd);
  { const FlashFile last = std::move(other); }
  EXPECT_EQ(::fcntl(fd, F_GETFD), -1) << "still open";
}

TEST(FlashShareTest, IsWhatIsWantedAsFarAsItIsLeft) {
  EXPECT_EQ(flash_share(0, 1000), 900u);
  EXPECT_EQ(flash_share(700, 1000), 700u);
  EXPECT_EQ(flash_share(2000, 1000), 1000u);
  EXPECT_EQ(flash_share(2000, 0), 2000u) << "where the file system does not say";
}

TEST(DefaultFlashDirectoryTest, IsThatForTemporaryFiles) {
  const std::string before = default_flash_directory();
  ::setenv("TMPDIR", "/var/tmp", 1);
  EXPECT_EQ(default_flash_directory(), "/var/tmp");
  ::setenv("TMPDIR", "", 1);
  EXPECT_EQ(default_flash_directory(), "/tmp");
  ::setenv("TMPDIR", before.c_str(), 1);
}

}  // namespace
}  // namespace ebb
