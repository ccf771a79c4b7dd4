// See endpoint.h.
#include "calls/endpoint.h"

#include <sys/socket.h>
#include <sys/stat.h>

namespace ebb::calls {

Endpoint endpoint_of_socket(int fd) {
  int type = SOCK_STREAM;
  socklen_t bytes = sizeof type;
  ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes);
  return type == SOCK_STREAM ? Endpoint::kStream : Endpoint::kMessage;
}

Endpoint endpoint_of(int fd) {
  struct stat facts {};
  if (::fstat(fd, &facts) != 0) return Endpoint::kFile;
  switch (facts.st_mode & S_IFMT) {
    case S_IFREG:
    case S_IFBLK:
    case S_IFDIR: return Endpoint::kFile;
    case S_IFIFO: return Endpoint::kStream;
    case S_IFSOCK: return endpoint_of_socket(fd);
    default: return Endpoint::kDevice;
  }
}

}  // namespace ebb::calls
