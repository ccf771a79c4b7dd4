// OpenedFiles: when a file is said to be the one that was opened, and when nobody can tell.
#include "drivers/linux/files/opened_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace ebb {
namespace {

constexpr long kExt = 0xef53;

class OpenedFilesTest : public testing::Test {
 protected:
  OpenedFilesTest() {
    const int fd = ::mkstemp(path_.data());
    EXPECT_GE(fd, 0);
    EXPECT_EQ(::ftruncate(fd, 1 << 20), 0);
    ::close(fd);
    struct statfs system {};
    EXPECT_EQ(::statfs(path_.c_str(), &system), 0);
    local_ = system.f_type == kExt;
  }
  ~OpenedFilesTest() override { std::filesystem::remove(path_); }

  std::int32_t open() {
    SourceFile source;
    std::string reason;
    EXPECT_EQ(files_.open(path_, source, reason), Status::kOk) << reason;
    return source.file;
  }
  // A file of some age.
  void settle() const { ::sleep(3); }

  std::string path_ = testing::TempDir() + "/ebb-opened-XXXXXX";
  bool local_ = false;
  OpenedFiles files_;
};

TEST_F(OpenedFilesTest, AYoungFileMayHaveChangedUnseen) { EXPECT_FALSE(files_.same_as_opened(open())); }

TEST_F(OpenedFilesTest, WhatHasChangedIsNotTheSame) {
  if (!local_) GTEST_SKIP() << "the temporary directory is not on ext4, whose times are known to tell";
  settle();
  const std::int32_t file = open();
  EXPECT_TRUE(files_.same_as_opened(file));
  EXPECT_FALSE(files_.same_as_opened(file + 1));
  // Its time of change is given back to it, as copying programs do; that itself is a change.
  struct stat before {};
  ASSERT_EQ(::stat(path_.c_str(), &before), 0);
  std::fstream(path_, std::ios::in | std::ios::out | std::ios::binary).put('x').flush();
  const timespec times[] = {before.st_atim, before.st_mtim};
  ASSERT_EQ(::utimensat(AT_FDCWD, path_.c_str(), times, 0), 0);
  EXPECT_FALSE(files_.same_as_opened(file));
  // Mapped anew, it is another one, and young.
  EXPECT_FALSE(files_.same_as_opened(open()));
}

// Other bytes of a file are its own only where somebody wrote them: else the disk errs.
TEST_F(OpenedFilesTest, ItsContentChangesWhenItIsWrittenTo) {
  const std::int32_t file = open();
  ASSERT_EQ(::chmod(path_.c_str(), 0640), 0);
  ASSERT_EQ(::link(path_.c_str(), (path_ + "-too").c_str()), 0);
  ASSERT_EQ(::unlink((path_ + "-too").c_str()), 0);
  EXPECT_FALSE(files_.changed(file));
  EXPECT_EQ(files_.take_changed(), FilePlace::kNoFile);
  ::usleep(20'000);  // a tick of the clock that times are told by
  std::fstream(path_, std::ios::in | std::ios::out | std::ios::binary).put('x').flush();
  EXPECT_TRUE(files_.changed(file));
  if (local_) {
    EXPECT_EQ(files_.take_changed(), file);
    EXPECT_EQ(files_.take_changed(), FilePlace::kNoFile);
  }
  EXPECT_TRUE(files_.changed(file)) << "still";
  EXPECT_FALSE(files_.changed(file + 1));
}

TEST_F(OpenedFilesTest, WhatIsReadIsTheSame) {
  if (!local_) GTEST_SKIP() << "the temporary directory is not on ext4, whose times are known to tell";
  settle();
  const std::int32_t file = open();
  char byte = 0;
  EXPECT_EQ(::pread(file, &byte, 0, 0), 0);
  std::ifstream(path_, std::ios::binary).get(byte);
  EXPECT_TRUE(files_.same_as_opened(file));
}

TEST_F(OpenedFilesTest, OfARamDiskNobodyCanTell) {
  if (::access("/dev/shm", W_OK) != 0) GTEST_SKIP() << "no RAM disk here";
  std::filesystem::remove(path_);
  path_ = "/dev/shm/ebb-opened-XXXXXX";
  const int fd = ::mkstemp(path_.data());
  ASSERT_GE(fd, 0);
  ASSERT_EQ(::ftruncate(fd, 1 << 20), 0);
  ::close(fd);
  settle();
  EXPECT_FALSE(files_.same_as_opened(open()));
}

}  // namespace
}  // namespace ebb
