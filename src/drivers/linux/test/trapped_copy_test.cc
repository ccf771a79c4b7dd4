// trapped_copy: what vanishes or may not be touched ends the copy and nothing else, and what is not its own fault goes
// to whom it belongs.
#include "drivers/linux/process/trapped_copy.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <setjmp.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <thread>
#include <vector>

#include "handler_child.h"

namespace ebb {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kPages = 8;
constexpr std::size_t kBytes = kPages * kPage;

class Mapped {
 public:
  explicit Mapped(int file = -1) {
    const int flags = file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    data_ = static_cast<char*>(::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, flags, file, 0));
    EXPECT_NE(data_, MAP_FAILED);
  }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;
  ~Mapped() { ::munmap(data_, kBytes); }
  char* data() const { return data_; }
  char* page(std::size_t index) const { return data_ + index * kPage; }

 private:
  char* data_;
};

class TrappedCopy : public ::testing::Test {
 protected:
  void SetUp() override {
    make_trap();
    std::fill(from.data(), from.data() + kBytes, 'a');
  }
  Mapped from;
  Mapped to;
};

TEST_F(TrappedCopy, Copies) {
  ASSERT_TRUE(trapped_copy(to.data() + 3, from.data(), kBytes - 3));
  EXPECT_EQ(to.data()[2], 0);
  EXPECT_EQ(std::count(to.data(), to.data() + kBytes, 'a'), static_cast<long>(kBytes - 3));
}

TEST_F(TrappedCopy, EndsAtHolesOfEitherSide) {
  if (kNoHandlers != nullptr) GTEST_SKIP() << kNoHandlers;
  ASSERT_EQ(::munmap(from.page(5), kPage), 0);
  EXPECT_FALSE(trapped_copy(to.data(), from.data(), kBytes));
  EXPECT_TRUE(trapped_copy(to.data(), from.data(), 5 * kPage));
  EXPECT_FALSE(trapped_copy(from.data(), to.data(), kBytes));
}

TEST_F(TrappedCopy, EndsAtWhatMayNotBeWritten) {
  if (kNoHandlers != nullptr) GTEST_SKIP() << kNoHandlers;
  ASSERT_EQ(::mprotect(to.page(2), kPage, PROT_READ), 0);
  EXPECT_FALSE(trapped_copy(to.data(), from.data(), kBytes));
  EXPECT_EQ(*to.page(2), 0);
  ASSERT_EQ(::mprotect(to.page(2), kPage, PROT_READ | PROT_WRITE), 0);
  EXPECT_TRUE(trapped_copy(to.data(), from.data(), kBytes));
}

TEST_F(TrappedCopy, EndsBeyondTheEndOfAFile) {
  if (kNoHandlers != nullptr) GTEST_SKIP() << kNoHandlers;
  const int file = ::memfd_create("trapped_copy_test", MFD_CLOEXEC);
  ASSERT_EQ(::ftruncate(file, static_cast<off_t>(kPage)), 0);
  {
    const Mapped mapped(file);
    EXPECT_FALSE(trapped_copy(to.data(), mapped.data(), kBytes));
    EXPECT_TRUE(trapped_copy(to.data(), mapped.data(), kPage));
  }
  ::close(file);
}

TEST_F(TrappedCopy, RefusesWhereItsHandlerIsNotReached) {
  if (kNoHandlers != nullptr) GTEST_SKIP() << kNoHandlers;
  ends(0, [&] {
    sigset_t blocked;
    ::sigemptyset(&blocked);
    ::sigaddset(&blocked, SIGSEGV);
    ::pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
    if (trapped_copy(to.data(), from.data(), kBytes)) return 1;
    ::pthread_sigmask(SIG_UNBLOCK, &blocked, nullptr);
    if (!trapped_copy(to.data(), from.data(), kBytes)) return 2;
    ::signal(SIGBUS, [](int) {});
    return trapped_copy(to.data(), from.data(), kBytes) ? 3 : 0;
  });
}

TEST_F(TrappedCopy, LeavesFaultsOfOthersAlone) {
  if (kNoHandlers != nullptr) GTEST_SKIP() << kNoHandlers;
  ends(kSignalled + SIGSEGV, [&] {
    ::mprotect(from.page(1), kPage, PROT_NONE);
    *static_cast<volatile char*>(from.page(1)) = 1;
    return 0;
  });
}

TEST_F(TrappedCopy, SurvivesMappingsThatComeAndGo) {
  if (kNoHandlers != nullptr) GTEST_SKIP() << kNoHandlers;
  constexpr int kRounds = 2000;
  std::atomic<bool> stop{false};
  std::thread remover([&] {
    while (!stop) {
      ::mprotect(from.page(6), kPage, PROT_NONE);
      ::mprotect(from.page(6), kPage, PROT_READ | PROT_WRITE);
    }
  });
  int whole = 0;
  std::vector<char> own(kBytes);
  for (int i = 0; i < kRounds; ++i) {
    std::fill(own.begin(), own.end(), 'b');
    if (!trapped_copy(own.data(), from.data(), kBytes)) continue;
    ++whole;
    ASSERT_EQ(std::count(own.begin(), own.end(), 'a'), static_cast<long>(kBytes));
  }
  stop = true;
  remover.join();
  RecordProperty("whole", whole);
}

}  // namespace
}  // namespace ebb
