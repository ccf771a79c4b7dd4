// UringFlash where io_uring is forbidden: it says so and leaves the file to the fallback. What it does elsewhere is in
// tests/conformance/raw_flash_test.cc.
#include "drivers/uring/uring_flash.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>

#include "drivers/linux/thread_flash.h"

namespace ebb {
namespace {

bool forbid_io_uring() {
  std::array<sock_filter, 4> filter{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog program{filter.size(), filter.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// In a child, which the filter is for; 0, or the number of what went wrong.
int run_without_io_uring() {
  if (!forbid_io_uring()) return 77;
  FlashFile file = FlashFile::open(default_flash_directory());
  const int fd = file.fd();
  std::unique_ptr<UringFlash> uring;
  if (UringFlash::make(file, 8, uring) != Status::kUnsupported) return 1;
  if (uring != nullptr || file.fd() != fd) return 2;
  if (file.grow(4096) != Status::kOk) return 3;
  return 0;
}

TEST(UringFlashTest, WhereItIsForbiddenTheFileIsLeftToTheFallback) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(run_without_io_uring());
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) GTEST_SKIP() << "seccomp filters are not to be had here";
  EXPECT_EQ(status, 0);
}

TEST(UringFlashTest, BothDriversTakeAnyDepth) {
  for (const std::uint32_t depth : {1u, 7u, 64u}) {
    FlashFile file = FlashFile::open(default_flash_directory());
    std::unique_ptr<UringFlash> uring;
    if (UringFlash::make(file, depth, uring) != Status::kOk) GTEST_SKIP() << "io_uring is not to be had here";
    EXPECT_EQ(uring->depth(), depth);
    FlashFile other = FlashFile::open(default_flash_directory());
    std::unique_ptr<ThreadFlash> threads;
    ASSERT_EQ(ThreadFlash::make(other, depth, threads), Status::kOk);
    EXPECT_EQ(threads->depth(), depth);
  }
}

}  // namespace
}  // namespace ebb
