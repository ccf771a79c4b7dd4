// Calls on files whose buffers are absent: counts, contents, positions and errors are those of ordinary memory.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <random>
#include <thread>
#include <vector>

#include "absent_memory.h"

namespace ebb::calls {
namespace {

constexpr std::size_t kBytes = 3 * (std::size_t{1} << 20) + 5 * AbsentMemory::kPage;  // more than one bounce

class File {
 public:
  explicit File(int flags = 0) : fd_(::memfd_create("test", 0)) {
    if (flags != 0) ::fcntl(fd_, F_SETFL, flags);
  }
  ~File() { ::close(fd_); }
  int fd() const { return fd_; }
  off_t position() const { return ::lseek(fd_, 0, SEEK_CUR); }
  void fill(std::size_t bytes, unsigned seed) const {
    std::vector<char> text(bytes);
    for (std::size_t i = 0; i < bytes; ++i) text[i] = pattern(seed, i);
    ASSERT_EQ(::pwrite(fd_, text.data(), bytes, 0), static_cast<ssize_t>(bytes));
  }
  std::vector<char> content() const {
    std::vector<char> text(static_cast<std::size_t>(::lseek(fd_, 0, SEEK_END)));
    EXPECT_EQ(::pread(fd_, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
    return text;
  }

 private:
  int fd_;
};

ssize_t as_signed(std::size_t bytes) { return static_cast<ssize_t>(bytes); }

TEST(CallsOnFiles, TheKernelDoesNotWaitForThisMemory) {
  const AbsentMemory memory(kBytes);
  memory.fill(1);
  const File file;
  EXPECT_EQ(::syscall(SYS_write, file.fd(), memory.data(), 1), -1);
  EXPECT_EQ(errno, EFAULT);
}

TEST(CallsOnFiles, WriteAndRead) {
  const AbsentMemory memory(kBytes);
  memory.fill(1);
  const File file;
  errno = 7;
  EXPECT_EQ(::write(file.fd(), memory.data() + 3, kBytes - 3), as_signed(kBytes - 3));
  EXPECT_EQ(errno, 7);
  EXPECT_EQ(file.position(), as_signed(kBytes - 3));
  EXPECT_TRUE(has_pattern(file.content().data(), kBytes - 3, 1, 3));
  memory.fill(2);
  ::lseek(file.fd(), 0, SEEK_SET);
  EXPECT_EQ(::read(file.fd(), memory.data() + 3, kBytes - 3), as_signed(kBytes - 3));
  EXPECT_TRUE(has_pattern(memory.data() + 3, kBytes - 3, 1, 3));
  EXPECT_TRUE(has_pattern(memory.data(), 3, 2));
  EXPECT_EQ(file.position(), as_signed(kBytes - 3));
}

TEST(CallsOnFiles, OnlyAHoleInTheMiddleIsAbsent) {
  const AbsentMemory memory(kBytes);
  memory.fill(1);
  memory.come(0, kBytes);
  memory.leave(40 * AbsentMemory::kPage, AbsentMemory::kPage);
  const File file;
  EXPECT_EQ(::write(file.fd(), memory.data(), kBytes), as_signed(kBytes));
  EXPECT_TRUE(has_pattern(file.content().data(), kBytes, 1));
}

TEST(CallsOnFiles, AtOffsets) {
  const AbsentMemory memory(kBytes);
  memory.fill(1);
  const File file;
  EXPECT_EQ(::pwrite(file.fd(), memory.data(), kBytes, 100), as_signed(kBytes));
  EXPECT_EQ(file.position(), 0);
  EXPECT_TRUE(has_pattern(file.content().data() + 100, kBytes, 1));
  memory.fill(2);
  EXPECT_EQ(::pread64(file.fd(), memory.data(), kBytes, 100), as_signed(kBytes));
  EXPECT_TRUE(has_pattern(memory.data(), kBytes, 1));
}

TEST(CallsOnFiles, ReadEndsWithTheFile) {
  const AbsentMemory memory(kBytes);
  memory.fill(1);
  const File file;
  file.fill(5000, 3);
  EXPECT_EQ(::read(file.fd(), memory.data(), kBytes), 5000);
  EXPECT_TRUE(has_pattern(memory.data(), 5000, 3));
  EXPECT_TRUE(has_pattern(memory.data() + 5000, kBytes - 5000, 1, 5000));
  EXPECT_EQ(::read(file.fd(), memory.data(), kBytes), 0);
}

TEST(CallsOnFiles, Append) {
  const AbsentMemory memory(kBytes);
  memory.fill(1);
  const File file(O_APPEND);
  file.fill(10, 9);
  EXPECT_EQ(::write(file.fd(), memory.data(), kBytes), as_signed(kBytes));
  EXPECT_TRUE(has_pattern(file.content().data() + 10, kBytes, 1));
}

TEST(CallsOnFiles, Vectors) {
  const AbsentMemory memory(kBytes);
  memory.fill(1);
  std::vector<char> ordinary(70'000);
  for (std::size_t i = 0; i < ordinary.size(); ++i) ordinary[i] = pattern(2, i);
  const std::size_t half = kBytes / 2;
  std::vector<iovec> buffers = {{ordinary.data(), ordinary.size()}, {memory.data(), half}, {nullptr, 0}};
  for (std::size_t i = 0; i < 100; ++i)
    buffers.push_back({memory.data() + half + 10 * i, 10});  // more than a piece has
  const std::size_t total = ordinary.size() + half + 1000;
  const int count = static_cast<int>(buffers.size());
  const File file;
  EXPECT_EQ(::writev(file.fd(), buffers.data(), count), as_signed(total));
  EXPECT_EQ(::pwritev(file.fd(), buffers.data(), count, as_signed(total)), as_signed(total));
  EXPECT_EQ(file.position(), as_signed(total));
  const auto text = file.content();
  for (const std::size_t from : {std::size_t{0}, total}) {
    EXPECT_TRUE(has_pattern(text.data() + from, ordinary.size(), 2));
    EXPECT_TRUE(has_pattern(text.data() + from + ordinary.size(), half + 1000, 1));
  }
  std::fill(ordinary.begin(), ordinary.end(), 0);
  memory.fill(3);
  ::lseek(file.fd(), 0, SEEK_SET);
  EXPECT_EQ(::preadv2(file.fd(), buffers.data(), count, -1, 0), as_signed(total));
  EXPECT_EQ(file.position(), as_signed(total));
  EXPECT_TRUE(has_pattern(ordinary.data(), ordinary.size(), 2));
  EXPECT_TRUE(has_pattern(memory.data(), half + 1000, 1));
  memory.fill(4);
  EXPECT_EQ(::readv(file.fd(), buffers.data(), count), as_signed(total));
  EXPECT_TRUE(has_pattern(memory.data(), half + 1000, 1));
}

TEST(CallsOnFiles, ABadPointerStaysOne) {
  const AbsentMemory memory(kBytes);
  memory.fill(1);
  void* const nowhere = ::mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const File file;
  EXPECT_EQ(::write(file.fd(), nowhere, kBytes), -1);
  EXPECT_EQ(errno, EFAULT);
  const iovec one_bad[] = {{memory.data(), 10'000}, {nowhere, 10}, {memory.data(), 10}};
  EXPECT_EQ(::writev(file.fd(), one_bad, 3), 10'000);
  EXPECT_EQ(::writev(file.fd(), one_bad + 1, 2), -1);
  EXPECT_EQ(errno, EFAULT);
  const iovec* volatile no_list = nullptr;
  EXPECT_EQ(::writev(file.fd(), no_list, 2), -1);
  EXPECT_EQ(errno, EFAULT);
  ::munmap(nowhere, kBytes);
}

TEST(CallsOnFiles, ErrorsOfTheCall) {
  const AbsentMemory memory(kBytes);
  memory.fill(1);
  EXPECT_EQ(::write(-1, memory.data(), 10), -1);
  EXPECT_EQ(errno, EBADF);
  const File file;
  EXPECT_EQ(::pread(file.fd(), memory.data(), 10, -5), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(memory.touches(), kBytes / AbsentMemory::kPage) << "only fill() has touched it";
}

TEST(CallsOnFiles, AFullFileTakesWhatFits) {
  const AbsentMemory memory(kBytes);
  memory.fill(1);
  const File file;
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{2'000'000, before.rlim_max};
  ::signal(SIGXFSZ, SIG_IGN);
  ::setrlimit(RLIMIT_FSIZE, &small);
  EXPECT_EQ(::write(file.fd(), memory.data(), kBytes), 2'000'000);
  EXPECT_EQ(::write(file.fd(), memory.data(), kBytes), -1);
  EXPECT_EQ(errno, EFBIG);
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, SIG_DFL);
  EXPECT_TRUE(has_pattern(file.content().data(), 2'000'000, 1));
}

TEST(CallsOnFiles, Streams) {
  const AbsentMemory memory(kBytes);
  memory.fill(1);
  FILE* const file = ::tmpfile();
  ASSERT_EQ(::fwrite("head", 1, 4, file), 4u);
  EXPECT_EQ(::fwrite(memory.data() + 1, 3, (kBytes - 1) / 3, file), (kBytes - 1) / 3);
  EXPECT_FALSE(::ferror(file));
  ASSERT_EQ(::fwrite("tail", 1, 4, file), 4u);
  const std::size_t bytes = (kBytes - 1) / 3 * 3;
  EXPECT_EQ(::ftell(file), as_signed(bytes + 8));
  ::rewind(file);
  char text[5] = {};
  ASSERT_EQ(::fread(text, 1, 4, file), 4u);
  EXPECT_STREQ(text, "head");
  memory.fill(2);
  EXPECT_EQ(::fread(memory.data() + 1, 3, bytes / 3, file), bytes / 3);
  EXPECT_FALSE(::ferror(file));
  EXPECT_TRUE(has_pattern(memory.data() + 1, bytes, 1, 1));
  memory.leave();
  ASSERT_EQ(::fread(text, 1, 4, file), 4u);
  EXPECT_STREQ(text, "tail");
  EXPECT_EQ(::fread(memory.data(), 2, 100'000, file), 0u);
  EXPECT_TRUE(::feof(file));
  EXPECT_FALSE(::ferror(file));
  ::fclose(file);
}

TEST(CallsOnFiles, StreamsSayWhatReallyFails) {
  const AbsentMemory memory(kBytes);
  memory.fill(1);
  FILE* const file = ::fopen("/dev/full", "w");
  ASSERT_NE(file, nullptr);
  EXPECT_LT(::fwrite(memory.data(), 1, kBytes, file), kBytes);
  EXPECT_EQ(errno, ENOSPC);
  EXPECT_TRUE(::ferror(file));
  ::fclose(file);
}

TEST(CallsOnFiles, WhatIsReadIsNotForgotten) {
  const AbsentMemory memory(AbsentMemory::kPage);
  memory.leave();
  const int counter = ::eventfd(42, 0);
  EXPECT_EQ(::read(counter, memory.data(), 8), 8);  // the kernel sets it back before it stores what it was
  EXPECT_EQ(memory.data()[0], 42);
  ::close(counter);
}

TEST(CallsOnFiles, DevicesDeliverAll) {
  const AbsentMemory memory(kBytes);
  memory.fill(1);
  const int zero = ::open("/dev/zero", O_RDONLY);
  EXPECT_EQ(::read(zero, memory.data(), kBytes), as_signed(kBytes));
  EXPECT_EQ(memory.data()[kBytes - 1], 0);
  ::close(zero);
}

TEST(CallsOnFiles, ALostPageIsSignalled) {
  EXPECT_EXIT(
      {
        const AbsentMemory memory(kBytes);
        memory.fill(1);
        memory.lose(5 * AbsentMemory::kPage);
        const File file;
        ::signal(SIGBUS, [](int) { ::_exit(7); });
        static_cast<void>(::write(file.fd(), memory.data(), kBytes));
        std::exit(0);
      },
      testing::ExitedWithCode(7), "");
}

TEST(CallsOnFiles, InAChild) {
  const AbsentMemory memory(kBytes);
  memory.fill(1);
  const File file;
  const pid_t child = ::fork();
  if (child == 0) ::_exit(::write(file.fd(), memory.data(), kBytes) == as_signed(kBytes) ? 0 : 1);
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(has_pattern(file.content().data(), kBytes, 1));
}

// Pages leave at any moment, as they do when another thread evicts.
TEST(CallsOnFiles, WhilePagesLeave) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  const AbsentMemory memory(kBytes);
  memory.fill(1);
  std::atomic<bool> done{false};
  std::thread evictor([&] {
    std::mt19937 random(seed);
    while (!done) memory.leave(random() % (kBytes / AbsentMemory::kPage) * AbsentMemory::kPage, AbsentMemory::kPage);
  });
  for (int i = 0; i < 20; ++i) {
    const File file;
    ASSERT_EQ(::write(file.fd(), memory.data(), kBytes), as_signed(kBytes));
    ASSERT_TRUE(has_pattern(file.content().data(), kBytes, 1));
    ASSERT_EQ(::pread(file.fd(), memory.data(), kBytes, 0), as_signed(kBytes));
  }
  done = true;
  evictor.join();
  EXPECT_TRUE(has_pattern(memory.data(), kBytes, 1));
}

}  // namespace
}  // namespace ebb::calls
