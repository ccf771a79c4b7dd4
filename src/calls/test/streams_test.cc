// Calls on pipes and sockets whose buffers are absent: what has arrived is returned and nothing is waited for that the
// call would not have waited for; messages keep their borders, and none is lost.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <thread>
#include <vector>

#include "absent_memory.h"

namespace ebb::calls {
namespace {

constexpr std::size_t kBytes = 3 * (std::size_t{1} << 20) + 5 * AbsentMemory::kPage;
constexpr int kFor = 10;  // a test that waits for more than this many seconds is stuck

ssize_t as_signed(std::size_t bytes) { return static_cast<ssize_t>(bytes); }

// Two ends of a pipe or a pair of sockets; a test that hangs is ended by SIGALRM.
class Ends {
 public:
  Ends() { EXPECT_EQ(::pipe(fd_.data()), 0); }
  explicit Ends(int type) { EXPECT_EQ(::socketpair(AF_UNIX, type, 0, fd_.data()), 0); }
  ~Ends() {
    close(0);
    close(1);
  }
  int in() const { return fd_[0]; }
  int out() const { return fd_[1]; }
  void close(int end) {
    if (fd_[end] >= 0) ::close(fd_[end]);
    fd_[end] = -1;
  }

 private:
  std::array<int, 2> fd_{-1, -1};
};

class CallsOnStreams : public testing::Test {
 protected:
  CallsOnStreams() {
    memory.fill(1);
    ::alarm(kFor);
  }
  ~CallsOnStreams() override { ::alarm(0); }

  // All that arrives until the other end is closed.
  static std::vector<char> drain(int fd) {
    std::vector<char> all, part(300'000);
    for (ssize_t got = 0; (got = ::read(fd, part.data(), part.size())) > 0;) {
      all.insert(all.end(), part.begin(), part.begin() + got);
    }
    return all;
  }

  const AbsentMemory memory{kBytes};
};

TEST_F(CallsOnStreams, WriteWaitsUntilAllIsTaken) {
  for (const bool socket : {false, true}) {
    memory.leave();
    Ends ends = socket ? Ends(SOCK_STREAM) : Ends();
    std::vector<char> got;
    std::thread reader([&] { got = drain(ends.in()); });
    EXPECT_EQ(::write(ends.out(), memory.data(), kBytes), as_signed(kBytes));
    ends.close(1);
    reader.join();
    ASSERT_EQ(got.size(), kBytes);
    EXPECT_TRUE(has_pattern(got.data(), kBytes, 1));
  }
}

TEST_F(CallsOnStreams, WriteThatMustNotWaitIsShort) {
  const Ends ends;
  ::fcntl(ends.out(), F_SETFL, O_NONBLOCK);
  const ssize_t wrote = ::write(ends.out(), memory.data(), kBytes);
  EXPECT_EQ(wrote, ::fcntl(ends.out(), F_GETPIPE_SZ));
  EXPECT_EQ(::write(ends.out(), memory.data(), 1), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST_F(CallsOnStreams, ReadReturnsWhatThereIs) {
  for (const bool socket : {false, true}) {
    memory.leave();
    Ends ends = socket ? Ends(SOCK_STREAM) : Ends();
    ASSERT_EQ(::write(ends.out(), "12345", 5), 5);
    EXPECT_EQ(::read(ends.in(), memory.data() + 4094, kBytes - 4094), 5);
    EXPECT_EQ(std::memcmp(memory.data() + 4094, "12345", 5), 0);
    memory.leave();
    ASSERT_EQ(::write(ends.out(), "678", 3), 3);
    // The first page is there and the second is not: two bytes, or three.
    memory.come(0, AbsentMemory::kPage);
    const ssize_t got = ::read(ends.in(), memory.data() + 4094, kBytes - 4094);
    EXPECT_TRUE(got == 2 || got == 3) << got;
    if (got == 2) {
      EXPECT_EQ(::read(ends.in(), memory.data() + 4096, 100), 1);
    }
    EXPECT_EQ(std::memcmp(memory.data() + 4094, "678", 3), 0);
    memory.leave();
    ends.close(1);
    EXPECT_EQ(::read(ends.in(), memory.data(), kBytes), 0);
  }
}

TEST_F(CallsOnStreams, NobodyReads) {
  ::signal(SIGPIPE, SIG_IGN);
  Ends ends;
  ends.close(0);
  EXPECT_EQ(::write(ends.out(), memory.data(), kBytes), -1);
  EXPECT_EQ(errno, EPIPE);
  ::signal(SIGPIPE, SIG_DFL);
}

TEST_F(CallsOnStreams, WaitAll) {
  Ends ends(SOCK_STREAM);
  std::thread writer([&] {
    std::vector<char> text(kBytes);
    for (std::size_t i = 0; i < kBytes; ++i) text[i] = pattern(5, i);
    for (std::size_t done = 0; done < kBytes;) {
      const ssize_t wrote = ::write(ends.out(), text.data() + done, std::min<std::size_t>(100'000, kBytes - done));
      if (wrote > 0) done += static_cast<std::size_t>(wrote);
    }
  });
  EXPECT_EQ(::recv(ends.in(), memory.data(), kBytes, MSG_WAITALL), as_signed(kBytes));
  writer.join();
  EXPECT_TRUE(has_pattern(memory.data(), kBytes, 5));
}

TEST_F(CallsOnStreams, Messages) {
  for (const int type : {SOCK_DGRAM, SOCK_SEQPACKET}) {
    const Ends ends(type);
    memory.fill(1);
    constexpr std::size_t kMessage = 20'000;
    EXPECT_EQ(::send(ends.out(), memory.data() + 7, kMessage, 0), as_signed(kMessage));
    EXPECT_EQ(::write(ends.out(), memory.data() + 9, kMessage), as_signed(kMessage));
    EXPECT_EQ(::send(ends.out(), memory.data(), kMessage, 0), as_signed(kMessage));
    memory.fill(2);
    EXPECT_EQ(::recv(ends.in(), memory.data() + 7, kMessage, MSG_PEEK), as_signed(kMessage));
    EXPECT_EQ(::recv(ends.in(), memory.data() + 7, kBytes - 7, 0), as_signed(kMessage));
    EXPECT_TRUE(has_pattern(memory.data() + 7, kMessage, 1, 7));
    memory.leave();
    EXPECT_EQ(::read(ends.in(), memory.data() + 9, kBytes - 9), as_signed(kMessage));
    EXPECT_TRUE(has_pattern(memory.data() + 9, kMessage, 1, 9));
    memory.fill(3);
    // The rest of a message that does not fit is gone, and what lies behind the buffer stays.
    EXPECT_EQ(::recv(ends.in(), memory.data(), 100, MSG_TRUNC), as_signed(kMessage));
    EXPECT_TRUE(has_pattern(memory.data(), 100, 1));
    EXPECT_TRUE(has_pattern(memory.data() + 100, 1000, 3, 100));
    EXPECT_EQ(::recv(ends.in(), memory.data(), 100, MSG_DONTWAIT), -1);
    EXPECT_EQ(errno, EAGAIN);
  }
}

TEST_F(CallsOnStreams, DatagramsOfUdp) {
  const int fd = ::socket(AF_INET, SOCK_DGRAM, 0);
  sockaddr_in own{};
  own.sin_family = AF_INET;
  own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof own;
  auto* const address = reinterpret_cast<sockaddr*>(&own);
  ASSERT_EQ(::bind(fd, address, bytes), 0);
  ASSERT_EQ(::getsockname(fd, address, &bytes), 0);
  EXPECT_EQ(::sendto(fd, memory.data(), 5000, 0, address, bytes), 5000);
  memory.fill(2);
  sockaddr_in from{};
  bytes = sizeof from;
  EXPECT_EQ(::recvfrom(fd, memory.data(), kBytes, 0, reinterpret_cast<sockaddr*>(&from), &bytes), 5000);
  EXPECT_EQ(from.sin_port, own.sin_port);
  EXPECT_TRUE(has_pattern(memory.data(), 5000, 1));
  ::close(fd);
}

TEST_F(CallsOnStreams, ManyMessagesAtOnce) {
  const Ends ends(SOCK_DGRAM);
  std::array<iovec, 4> buffers{};
  std::array<mmsghdr, 4> messages{};
  for (std::size_t i = 0; i < 4; ++i) {
    buffers[i] = {memory.data() + i * 10'000, 1000 + i};
    messages[i].msg_hdr.msg_iov = &buffers[i];
    messages[i].msg_hdr.msg_iovlen = 1;
  }
  EXPECT_EQ(::sendmmsg(ends.out(), messages.data(), 4, 0), 4);
  memory.fill(2);
  timespec patience{5, 0};
  EXPECT_EQ(::recvmmsg(ends.in(), messages.data(), 3, 0, &patience), 3);
  EXPECT_EQ(::recvmmsg(ends.in(), messages.data() + 3, 1, MSG_WAITFORONE, nullptr), 1);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(messages[i].msg_len, 1000 + i);
    EXPECT_TRUE(has_pattern(memory.data() + i * 10'000, 1000 + i, 1, i * 10'000));
  }
  EXPECT_EQ(::recvmmsg(ends.in(), messages.data(), 4, MSG_DONTWAIT, nullptr), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST_F(CallsOnStreams, DescriptorsBesideTheBytes) {
  const Ends ends(SOCK_STREAM);
  iovec buffer{memory.data(), 100'000};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &buffer;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* const beside = CMSG_FIRSTHDR(&message);
  beside->cmsg_level = SOL_SOCKET;
  beside->cmsg_type = SCM_RIGHTS;
  beside->cmsg_len = CMSG_LEN(sizeof(int));
  const int sent = ends.out();
  std::memcpy(CMSG_DATA(beside), &sent, sizeof sent);
  EXPECT_EQ(::sendmsg(ends.out(), &message, 0), 100'000);
  memory.fill(2);
  control = {};
  EXPECT_GT(::recvmsg(ends.in(), &message, MSG_WAITALL), 0);
  ASSERT_NE(CMSG_FIRSTHDR(&message), nullptr);
  EXPECT_EQ(CMSG_FIRSTHDR(&message)->cmsg_len, CMSG_LEN(sizeof(int)));
  int received = -1;
  std::memcpy(&received, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof received);
  EXPECT_GE(received, 0);
  EXPECT_NE(::fcntl(received, F_GETFD), -1);
  ::close(received);
}

TEST_F(CallsOnStreams, SignalsInterrupt) {
  struct sigaction action {};
  action.sa_handler = [](int) {};
  ::sigaction(SIGUSR1, &action, nullptr);
  const Ends ends;
  std::atomic<bool> stop{false};
  const pthread_t reader = ::pthread_self();
  std::thread sender([&] {
    while (!stop) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      ::pthread_kill(reader, SIGUSR1);
    }
  });
  EXPECT_EQ(::read(ends.in(), memory.data(), kBytes), -1);
  EXPECT_EQ(errno, EINTR);
  // What was taken before the signal is said; the rest is not waited for.
  const ssize_t wrote = ::write(ends.out(), memory.data(), kBytes);
  stop = true;
  sender.join();
  EXPECT_EQ(wrote, ::fcntl(ends.out(), F_GETPIPE_SZ));
}

TEST_F(CallsOnStreams, AThreadIsCancelledInsideACall) {
  const Ends ends;
  std::atomic<bool> started{false};
  struct Shared {
    int fd;
    char* data;
    std::atomic<bool>& started;
  } shared{ends.in(), memory.data(), started};
  pthread_t thread{};
  ASSERT_EQ(::pthread_create(
                &thread, nullptr,
                [](void* argument) -> void* {
                  auto& given = *static_cast<Shared*>(argument);
                  given.started = true;
                  static_cast<void>(::read(given.fd, given.data, 100));
                  return nullptr;
                },
                &shared),
            0);
  while (!started) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  ::pthread_cancel(thread);
  void* result = nullptr;
  ::pthread_join(thread, &result);
  EXPECT_EQ(result, PTHREAD_CANCELED);
  ASSERT_EQ(::write(ends.out(), "1", 1), 1);
  EXPECT_EQ(::read(ends.in(), memory.data(), 10), 1);
}

// write(2) may be called in a handler, also one that runs in the middle of such a write.
TEST_F(CallsOnStreams, InASignalHandler) {
  if (kNoHandlers != nullptr) GTEST_SKIP() << kNoHandlers;
  static int g_out;
  static const char* g_data;
  const Ends small;
  g_out = small.out();
  g_data = memory.data() + kBytes - 10;
  struct sigaction action {};
  action.sa_handler = [](int) { static_cast<void>(::write(g_out, g_data, 10)); };
  ::sigaction(SIGUSR1, &action, nullptr);
  const Ends ends;
  const pthread_t writer = ::pthread_self();
  std::thread sender([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ::pthread_kill(writer, SIGUSR1);
  });
  EXPECT_GT(::write(ends.out(), memory.data(), kBytes), 0);  // blocked in a full pipe when the signal comes
  sender.join();
  std::array<char, 20> got{};
  EXPECT_EQ(::read(small.in(), got.data(), got.size()), 10);
  EXPECT_TRUE(has_pattern(got.data(), 10, 1, kBytes - 10));
}

}  // namespace
}  // namespace ebb::calls
