// See job_socket.h.
#include "job/job_socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace ebb {
namespace {

constexpr int kWaitingMax = 128;  // connections that the listener has not accepted

// An address has room for 107 characters. A longer path is reached through its directory's descriptor, which is then
// the caller's to close.
bool address_of(const std::string& path, sockaddr_un& address, int& directory) {
  address = {};
  address.sun_family = AF_UNIX;
  directory = -1;
  std::string name = path;
  if (path.size() >= sizeof address.sun_path) {
    const std::size_t slash = path.rfind('/');
    directory = ::open(path.substr(0, slash).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0) return false;
    name = "/proc/self/fd/" + std::to_string(directory) + path.substr(slash);
  }
  if (name.size() >= sizeof address.sun_path) {
    errno = ENAMETOOLONG;
    return false;
  }
  std::memcpy(address.sun_path, name.c_str(), name.size() + 1);
  return true;
}

template <typename Use>
int open_socket(const std::string& path, Use use) {
  sockaddr_un address{};
  int directory = -1;
  int socket = address_of(path, address, directory) ? ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0) : -1;
  int error = errno;
  if (socket >= 0 && !use(socket, reinterpret_cast<const sockaddr*>(&address), socklen_t{sizeof address})) {
    error = errno;
    ::close(socket);
    socket = -1;
  }
  if (directory >= 0) ::close(directory);
  errno = error;
  return socket;
}

}  // namespace

int listen_job(const std::string& path) {
  return open_socket(path, [&](int socket, const sockaddr* address, socklen_t size) {
    const mode_t mask = ::umask(0177);
    const bool bound = ::bind(socket, address, size) == 0;
    ::umask(mask);
    return bound && ::fcntl(socket, F_SETFL, O_NONBLOCK) == 0 && ::listen(socket, kWaitingMax) == 0;
  });
}

int connect_job(const std::string& path) {
  return open_socket(path, [](int socket, const sockaddr* address, socklen_t size) {
    const timeval limit{5, 0};
    ::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    int connected = -1;
    do {
      connected = ::connect(socket, address, size);
    } while (connected != 0 && errno == EINTR);
    return connected == 0;
  });
}

bool send_job(int socket, const JobMessage& message) {
  ssize_t sent = 0;
  do {
    sent = ::send(socket, &message, sizeof message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(sizeof message);
}

Received receive_job(int socket, JobMessage& message) {
  // With MSG_TRUNC a packet says how long it was, although no more of it is read than there is room for.
  const ssize_t received = ::recv(socket, &message, sizeof message, MSG_DONTWAIT | MSG_TRUNC);
  if (received < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return Received::kNothing;
  return received > 0 && valid(message, static_cast<std::uint64_t>(received)) ? Received::kMessage : Received::kClosed;
}

}  // namespace ebb
