// The interposed calls on sockets. On a socket whose calls are messages nothing is tried first: the kernel throws away
// a message that it could not deliver.
#include <sys/socket.h>
#include <time.h>

#include <algorithm>

#include "calls/entries/entry.h"
#include "calls/transfer.h"

namespace ebb::calls {
namespace {

using Send = Next<"send", ssize_t(int, const void*, std::size_t, int)>;
using Sendto = Next<"sendto", ssize_t(int, const void*, std::size_t, int, const sockaddr*, socklen_t)>;
using Sendmsg = Next<"sendmsg", ssize_t(int, const msghdr*, int)>;
using Sendmmsg = Next<"sendmmsg", int(int, mmsghdr*, unsigned, int)>;
using Recv = Next<"recv", ssize_t(int, void*, std::size_t, int)>;
using Recvfrom = Next<"recvfrom", ssize_t(int, void*, std::size_t, int, sockaddr*, socklen_t*)>;
using Recvmsg = Next<"recvmsg", ssize_t(int, msghdr*, int)>;
using Recvmmsg = Next<"recvmmsg", int(int, mmsghdr*, unsigned, int, timespec*)>;
using RecvChecked = Next<"__recv_chk", ssize_t(int, void*, std::size_t, std::size_t, int)>;
using RecvfromChecked =
    Next<"__recvfrom_chk", ssize_t(int, void*, std::size_t, std::size_t, int, sockaddr*, socklen_t*)>;

// Of what is sent without a copy at once: the socket keeps the pages, of which it gets copies. More is a short count.
constexpr std::size_t kZeroCopyMax = std::size_t{64} << 20;

Buffers buffers_of(const msghdr* message) {
  if (message == nullptr || message->msg_iov == nullptr) return {};
  return {message->msg_iov, message->msg_iovlen};
}

msghdr with(const msghdr& message, Buffers buffers) {
  msghdr changed = message;
  changed.msg_iov = const_cast<iovec*>(buffers.data());
  changed.msg_iovlen = buffers.size();
  return changed;
}

// Whether a call is to be looked at because of what it sends.
bool concerns(const void* data, std::size_t bytes, int flags) {
  return may_be_absent(data, bytes) || ((flags & MSG_ZEROCOPY) != 0 && g_managed_hull.meets(data, bytes));
}

bool concerns(Buffers buffers, int flags) {
  if (g_managed_hull.empty()) return false;
  return std::any_of(buffers.begin(), buffers.end(),
                     [flags](const iovec& buffer) { return concerns(buffer.iov_base, buffer.iov_len, flags); });
}

// Of the control data, a descriptor is sent with the first part alone.
ssize_t send_managed(int fd, const msghdr& message, int flags) {
  Transfer transfer{fd, Direction::kOut, endpoint_of_socket(fd)};
  if ((flags & MSG_ZEROCOPY) != 0) transfer.kept_pages_bytes = kZeroCopyMax;
  return transfer.run(buffers_of(&message), [&](Buffers buffers, std::size_t done) {
    msghdr part = with(message, buffers);
    if (done > 0) part.msg_control = nullptr;
    if (done > 0) part.msg_controllen = 0;
    return Sendmsg::call(fd, &part, flags);
  });
}

ssize_t receive_managed(int fd, msghdr& message, int flags) {
  const Endpoint endpoint = endpoint_of_socket(fd);
  // Bytes of a stream that are thrown away are not stored, and an error is a message on any socket.
  if ((flags & MSG_TRUNC) != 0 && endpoint == Endpoint::kStream) return Recvmsg::call(fd, &message, flags);
  Transfer transfer{fd, Direction::kIn, (flags & MSG_ERRQUEUE) != 0 ? Endpoint::kMessage : endpoint};
  transfer.until_full = (flags & MSG_WAITALL) != 0 && (flags & (MSG_PEEK | MSG_DONTWAIT)) == 0;
  transfer.once = message.msg_control != nullptr;
  return transfer.run(buffers_of(&message), [&](Buffers buffers, std::size_t) {
    msghdr part = with(message, buffers);
    const ssize_t result = Recvmsg::call(fd, &part, flags);
    if (result < 0) return result;
    message.msg_namelen = part.msg_namelen;
    message.msg_controllen = part.msg_controllen;
    message.msg_flags = part.msg_flags;
    return result;
  });
}

[[gnu::noinline]] ssize_t receive_managed(int fd, void* data, std::size_t bytes, int flags, sockaddr* from,
                                          socklen_t* from_bytes) {
  iovec buffer{data, bytes};
  msghdr message{};
  message.msg_iov = &buffer;
  message.msg_iovlen = 1;
  message.msg_name = from_bytes != nullptr ? from : nullptr;
  message.msg_namelen = from != nullptr && from_bytes != nullptr ? *from_bytes : 0;
  const ssize_t result = receive_managed(fd, message, flags);
  if (result >= 0 && from != nullptr && from_bytes != nullptr) *from_bytes = message.msg_namelen;
  return result;
}

[[gnu::noinline]] ssize_t send_managed(int fd, const void* data, std::size_t bytes, int flags, const sockaddr* to,
                                       socklen_t to_bytes) {
  iovec buffer{const_cast<void*>(data), bytes};
  msghdr message{};
  message.msg_iov = &buffer;
  message.msg_iovlen = 1;
  message.msg_name = const_cast<sockaddr*>(to);
  message.msg_namelen = to != nullptr ? to_bytes : 0;
  return send_managed(fd, message, flags);
}

bool any_concerns(const mmsghdr* messages, unsigned count, int flags) {
  if (g_managed_hull.empty() || messages == nullptr) return false;
  for (unsigned i = 0; i < count; ++i) {
    if (concerns(buffers_of(&messages[i].msg_hdr), flags)) return true;
  }
  return false;
}

bool has_passed(const timespec& end) {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec > end.tv_sec || (now.tv_sec == end.tv_sec && now.tv_nsec >= end.tv_nsec);
}

}  // namespace

extern "C" {

EBB_ENTRY ssize_t send(int fd, const void* data, std::size_t bytes, int flags) {
  if (!concerns(data, bytes, flags)) return Send::call(fd, data, bytes, flags);
  return send_managed(fd, data, bytes, flags, nullptr, 0);
}

EBB_ENTRY ssize_t sendto(int fd, const void* data, std::size_t bytes, int flags, const sockaddr* to,
                         socklen_t to_bytes) {
  if (!concerns(data, bytes, flags)) return Sendto::call(fd, data, bytes, flags, to, to_bytes);
  return send_managed(fd, data, bytes, flags, to, to_bytes);
}

EBB_ENTRY ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  if (!concerns(buffers_of(message), flags)) return Sendmsg::call(fd, message, flags);
  return send_managed(fd, *message, flags);
}

EBB_ENTRY int sendmmsg(int fd, mmsghdr* messages, unsigned count, int flags) {
  if (!any_concerns(messages, count, flags)) return Sendmmsg::call(fd, messages, count, flags);
  int sent = 0;
  for (; static_cast<unsigned>(sent) < count; ++sent) {
    const ssize_t bytes = sendmsg(fd, &messages[sent].msg_hdr, flags);
    if (bytes < 0) return sent > 0 ? sent : -1;
    messages[sent].msg_len = static_cast<unsigned>(bytes);
  }
  return sent;
}

EBB_ENTRY ssize_t recv(int fd, void* data, std::size_t bytes, int flags) {
  if (!may_be_absent(data, bytes)) return Recv::call(fd, data, bytes, flags);
  return receive_managed(fd, data, bytes, flags, nullptr, nullptr);
}

EBB_ENTRY ssize_t recvfrom(int fd, void* data, std::size_t bytes, int flags, sockaddr* from, socklen_t* from_bytes) {
  if (!may_be_absent(data, bytes)) return Recvfrom::call(fd, data, bytes, flags, from, from_bytes);
  return receive_managed(fd, data, bytes, flags, from, from_bytes);
}

EBB_ENTRY ssize_t recvmsg(int fd, msghdr* message, int flags) {
  if (!may_be_absent(buffers_of(message))) return Recvmsg::call(fd, message, flags);
  return receive_managed(fd, *message, flags);
}

// One after the other. The time is looked at after each, as the kernel does.
EBB_ENTRY int recvmmsg(int fd, mmsghdr* messages, unsigned count, int flags, timespec* timeout) {
  if (!any_concerns(messages, count, 0)) return Recvmmsg::call(fd, messages, count, flags, timeout);
  constexpr long kSecond = 1'000'000'000;
  timespec end{};
  if (timeout != nullptr) {
    ::clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += timeout->tv_sec;
    end.tv_nsec += timeout->tv_nsec;
    if (end.tv_nsec >= kSecond) end.tv_sec += 1;
    if (end.tv_nsec >= kSecond) end.tv_nsec -= kSecond;
  }
  int one = flags & ~MSG_WAITFORONE;
  int got = 0;
  for (; static_cast<unsigned>(got) < count; ++got) {
    const ssize_t bytes = recvmsg(fd, &messages[got].msg_hdr, one);
    if (bytes < 0) return got > 0 ? got : -1;
    messages[got].msg_len = static_cast<unsigned>(bytes);
    if ((flags & MSG_WAITFORONE) != 0) one |= MSG_DONTWAIT;
    if (timeout != nullptr && has_passed(end)) return got + 1;
  }
  return got;
}

EBB_ENTRY ssize_t __recv_chk(int fd, void* data, std::size_t bytes, std::size_t room, int flags) {
  if (bytes > room || !may_be_absent(data, bytes)) return RecvChecked::call(fd, data, bytes, room, flags);
  return recv(fd, data, bytes, flags);
}

EBB_ENTRY ssize_t __recvfrom_chk(int fd, void* data, std::size_t bytes, std::size_t room, int flags, sockaddr* from,
                                 socklen_t* from_bytes) {
  if (bytes > room || !may_be_absent(data, bytes)) {
    return RecvfromChecked::call(fd, data, bytes, room, flags, from, from_bytes);
  }
  return recvfrom(fd, data, bytes, flags, from, from_bytes);
}

}  // extern "C"

EBB_ALIAS(__send, send);

}  // namespace ebb::calls
