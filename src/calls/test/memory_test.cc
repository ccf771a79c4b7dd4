// Calls of a program on the mapping of its own managed memory, and those that hand its pages to the kernel: as on
// ordinary memory, or refused with an errno and one message.
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/errqueue.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <thread>
#include <vector>

#include "absent_memory.h"
#include "calls/table.h"

extern "C" long mbind(void*, unsigned long, int, const unsigned long*, unsigned long, unsigned);

namespace ebb::calls {
namespace {

constexpr std::size_t kPage = AbsentMemory::kPage;
constexpr std::size_t kBytes = 64 * kPage;
constexpr unsigned kAbsentAndOurs = 3;
constexpr unsigned kOursAlone = 2;

class CallsOnMemory : public testing::Test {
 protected:
  CallsOnMemory() { memory.fill(1); }

  // errno of what must be refused, with a message that says `word`; nothing has changed.
  template <typename Call>
  int refused(const char* word, Call call) {
    memory.leave();
    testing::internal::CaptureStderr();
    errno = 0;
    EXPECT_EQ(call(), -1);
    const int error = errno;
    call();  // says nothing more
    const std::string text = testing::internal::GetCapturedStderr();
    EXPECT_NE(text.find(word), std::string::npos) << text;
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
    EXPECT_TRUE(has_pattern(memory.data(), kBytes, 1));
    return error;
  }

  const AbsentMemory memory{kBytes, kAbsentAndOurs};
};

long as_long(const void* pointer) { return reinterpret_cast<long>(pointer); }

TEST_F(CallsOnMemory, DiscardedIsZero) {
  EXPECT_EQ(::madvise(memory.data() + kPage, 3 * kPage - 5, MADV_DONTNEED), 0);
  EXPECT_TRUE(has_pattern(memory.data(), kPage, 1));
  EXPECT_TRUE(std::all_of(memory.data() + kPage, memory.data() + 4 * kPage, [](char c) { return c == 0; }));
  EXPECT_TRUE(has_pattern(memory.data() + 4 * kPage, kBytes - 4 * kPage, 1, 4 * kPage));
  EXPECT_EQ(::madvise(memory.data() + 1, kPage, MADV_DONTNEED), -1);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(CallsOnMemory, AdviceThatChangesNothing) {
  for (const int advice : {MADV_NORMAL, MADV_SEQUENTIAL, MADV_RANDOM, MADV_WILLNEED, MADV_FREE, MADV_DONTFORK,
                           MADV_DOFORK, MADV_HUGEPAGE, MADV_NOHUGEPAGE, MADV_MERGEABLE, MADV_DONTDUMP, MADV_COLD,
                           MADV_PAGEOUT, MADV_POPULATE_WRITE, 25 /* MADV_COLLAPSE */}) {
    EXPECT_EQ(::madvise(memory.data(), kBytes, advice), 0) << advice;
  }
  const auto touched = memory.touches();
  EXPECT_EQ(::munlock(memory.data(), kBytes), 0);
  EXPECT_EQ(::mprotect(memory.data(), kBytes, PROT_READ | PROT_WRITE), 0);
  EXPECT_EQ(::mbind(memory.data(), kBytes, 0, nullptr, 0, 0), 0);
  EXPECT_EQ(memory.touches(), touched) << "nothing came for it";
  EXPECT_TRUE(has_pattern(memory.data(), kBytes, 1));
}

TEST_F(CallsOnMemory, WhatCannotBeKeptIsRefused) {
  char* const data = memory.data();
  if (!kLocksNothing) {
    EXPECT_EQ(refused("mlock", [&] { return ::mlock(data, 10); }), ENOMEM);
    EXPECT_EQ(::mlockall(MCL_CURRENT), -1);
  }
  EXPECT_EQ(::mlock2(data, 10, 0), -1);
  EXPECT_EQ(refused("mprotect", [&] { return ::mprotect(data, kPage, PROT_READ); }), EACCES);
  EXPECT_EQ(refused("munmap", [&] { return ::munmap(data, kPage); }), EINVAL);
  EXPECT_EQ(refused("mremap", [&] { return as_long(::mremap(data, kPage, 2 * kPage, MREMAP_MAYMOVE)); }), EINVAL);
  EXPECT_EQ(
      refused("MAP_FIXED",
              [&] { return as_long(::mmap(data, kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0)); }),
      EINVAL);
  EXPECT_EQ(refused("madvise", [&] { return ::madvise(data, kPage, MADV_WIPEONFORK); }), EINVAL);
}

TEST_F(CallsOnMemory, OrdinaryMemoryIsTheKernels) {
  void* const mapped = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  auto* const data = static_cast<char*>(mapped);
  data[0] = 1;
  EXPECT_EQ(::mlock(data, kPage), 0);
  EXPECT_EQ(::munlock(data, kPage), 0);
  EXPECT_EQ(::madvise(data, kPage, MADV_DONTNEED), 0);
  EXPECT_EQ(data[0], 0);
  EXPECT_EQ(::mprotect(data, kPage, PROT_READ), 0);
  EXPECT_EQ(::mprotect(data + 1, kPage, PROT_READ), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(::mprotect(data, kPage, PROT_READ | PROT_WRITE), 0);
  void* const moved = ::mremap(data, kBytes, 2 * kBytes, MREMAP_MAYMOVE);
  ASSERT_NE(moved, MAP_FAILED);
  EXPECT_EQ(::mmap(moved, kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), moved);
  EXPECT_EQ(::munmap(moved, 2 * kBytes), 0);
  EXPECT_EQ(::munmap(static_cast<char*>(moved) + 1, kPage), -1);
  EXPECT_EQ(errno, EINVAL);
}

// A discard that begins in memory of the program and ends in managed memory does both.
// It counts where it is mapped, in each mapping; private and anonymous memory and files on a disk do not.
TEST(CallsOnSharedMemory, IsCounted) {
  const auto counted = reinterpret_cast<SharedMemory>(::dlsym(RTLD_DEFAULT, kSharedMemoryName));
  ASSERT_NE(counted, nullptr) << "libebb_calls.so is not loaded";
  std::size_t most = 0;
  const std::size_t before = counted(&most);
  const int fd = ::memfd_create("shared", MFD_CLOEXEC);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(::ftruncate(fd, kBytes), 0);
  const auto map = [fd](std::size_t bytes, int flags) {
    void* const data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, (flags & MAP_ANONYMOUS) != 0 ? -1 : fd, 0);
    EXPECT_NE(data, MAP_FAILED);
    return data;
  };
  void* const all = map(kBytes, MAP_SHARED);
  void* const part = map(kPage + 1, MAP_SHARED);
  void* const own = map(kBytes, MAP_PRIVATE);
  void* const anonymous = map(kBytes, MAP_SHARED | MAP_ANONYMOUS);
  EXPECT_EQ(counted(&most), before + kBytes + 2 * kPage);
  ::munmap(own, kBytes);
  ::munmap(anonymous, kBytes);
  EXPECT_EQ(counted(&most), before + kBytes + 2 * kPage);
  ::munmap(all, kBytes);
  EXPECT_EQ(counted(&most), before + 2 * kPage);
  ::munmap(part, kPage + 1);
  EXPECT_EQ(counted(&most), before);
  EXPECT_GE(most, before + kBytes + 2 * kPage);
  ::close(fd);
}

TEST(CallsOnSharedMemory, ManyThreadsMap) {
  const auto counted = reinterpret_cast<SharedMemory>(::dlsym(RTLD_DEFAULT, kSharedMemoryName));
  std::size_t most = 0;
  const std::size_t before = counted(&most);
  const auto work = [] {
    const int fd = ::memfd_create("shared", MFD_CLOEXEC);
    if (::ftruncate(fd, kPage) != 0) return;
    for (int i = 0; i < 200; ++i) {
      std::array<void*, 32> mapped;
      for (void*& data : mapped) data = ::mmap(nullptr, kPage, PROT_READ, MAP_SHARED, fd, 0);
      for (void* const data : mapped) ::munmap(data, kPage);
    }
    ::close(fd);
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counted(&most), before);
}

TEST_F(CallsOnMemory, AcrossTheBorder) {
  const std::size_t before = kPage;
  char* const data = memory.data() - before;
  // Where something else lies there, there is no border to try.
  void* const mapped =
      ::mmap(data, before, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (mapped != data) GTEST_SKIP() << "no free page in front of the memory";
  data[0] = 1;
  EXPECT_EQ(::madvise(data, before + kPage, MADV_DONTNEED), 0);
  EXPECT_EQ(data[0], 0);
  EXPECT_EQ(memory.data()[0], 0);
  EXPECT_TRUE(has_pattern(memory.data() + kPage, kBytes - kPage, 1, kPage));
  ::munmap(data, before);
}

// What a pipe has been given stays what it was, though the memory is another tensor's by the time it is read. Also
// where the kernel waits for absent memory: the pages are the trouble.
TEST(CallsOnPages, APipeGetsACopy) {
  for (const unsigned kind : {kAbsentAndOurs, kOursAlone}) {
    const AbsentMemory memory(kBytes, kind);
    memory.fill(1);
    memory.come(0, kind == kOursAlone ? kBytes : kPage);
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe(ends.data()), 0);
    const iovec buffer{memory.data() + 10, 20'000};
    EXPECT_EQ(::vmsplice(ends[1], &buffer, 1, SPLICE_F_GIFT), 20'000);
    memory.fill(2);
    std::vector<char> got(20'000);
    std::size_t done = 0;
    while (done < got.size()) {
      const ssize_t part = ::read(ends[0], got.data() + done, got.size() - done);
      ASSERT_GT(part, 0);
      done += static_cast<std::size_t>(part);
    }
    EXPECT_TRUE(has_pattern(got.data(), got.size(), 1, 10));
    // And the other way, where the kernel copies.
    ASSERT_EQ(::write(ends[1], got.data(), 5000), 5000);
    memory.fill(3);
    const iovec into{memory.data(), kBytes};
    if (kind == kAbsentAndOurs) {
      EXPECT_EQ(::vmsplice(ends[0], &into, 1, 0), 5000);
      EXPECT_TRUE(has_pattern(memory.data(), 5000, 1, 10));
    }
    ::close(ends[0]);
    ::close(ends[1]);
  }
}

class Tcp {
 public:
  Tcp() {
    const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in own{};
    own.sin_family = AF_INET;
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof own;
    auto* const address = reinterpret_cast<sockaddr*>(&own);
    EXPECT_EQ(::bind(listener, address, bytes), 0);
    EXPECT_EQ(::getsockname(listener, address, &bytes), 0);
    EXPECT_EQ(::listen(listener, 1), 0);
    out = ::socket(AF_INET, SOCK_STREAM, 0);
    EXPECT_EQ(::connect(out, address, bytes), 0);
    in = ::accept(listener, nullptr, nullptr);
    ::close(listener);
  }
  ~Tcp() {
    ::close(in);
    ::close(out);
  }
  int in = -1;
  int out = -1;
};

TEST(CallsOnPages, ASocketThatDoesNotCopyGetsACopy) {
  const AbsentMemory memory(kBytes, kAbsentAndOurs);
  memory.fill(1);
  const Tcp tcp;
  const int on = 1;
  if (::setsockopt(tcp.out, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof on) != 0) GTEST_SKIP() << "no SO_ZEROCOPY here";
  EXPECT_EQ(::send(tcp.out, memory.data(), 50'000, MSG_ZEROCOPY), 50'000);
  memory.fill(2);
  std::vector<char> got(50'000);
  EXPECT_EQ(::recv(tcp.in, got.data(), got.size(), MSG_WAITALL), 50'000);
  EXPECT_TRUE(has_pattern(got.data(), got.size(), 1));
  // The program is told once, as of one call.
  alignas(cmsghdr) std::array<char, 512> control{};
  msghdr message{};
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ASSERT_EQ(::recvmsg(tcp.out, &message, MSG_ERRQUEUE), 0);
  sock_extended_err told{};
  std::memcpy(&told, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof told);
  EXPECT_EQ(told.ee_origin, SO_EE_ORIGIN_ZEROCOPY);
  EXPECT_EQ(told.ee_info, 0u);
  EXPECT_EQ(told.ee_data, 0u);
}

TEST(CallsOnPages, RandomBytes) {
  const AbsentMemory memory(kBytes);
  EXPECT_EQ(::getrandom(memory.data() + 1, 20'000, 0), 20'000);
  EXPECT_NE(std::count(memory.data() + 1, memory.data() + 20'001, 0), 20'000);
  memory.leave();
  EXPECT_EQ(::getentropy(memory.data() + kPage - 10, 20), 0);
}

TEST(CallsOnPages, MemoryOfAProcess) {
  const AbsentMemory memory(kBytes);
  memory.fill(1);
  std::vector<char> ordinary(kBytes);
  const iovec own{memory.data(), kBytes};
  const iovec other{ordinary.data(), kBytes};
  if (::process_vm_writev(::getpid(), &own, 1, &other, 1, 0) < 0 && errno == EPERM) GTEST_SKIP() << "not allowed here";
  EXPECT_TRUE(has_pattern(ordinary.data(), kBytes, 1));
  memory.fill(2);
  EXPECT_EQ(::process_vm_readv(::getpid(), &own, 1, &other, 1, 0), static_cast<ssize_t>(kBytes));
  EXPECT_TRUE(has_pattern(memory.data(), kBytes, 1));
}

}  // namespace
}  // namespace ebb::calls
