// libFuzzer: any bytes as packets of a member of a job. Each begins with a byte: of a multiple of 4 the next 72 bytes,
// of others so many as it says. The server hears them, closes the connection, and gives nobody more than there is.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "cli/run/job/job_server.h"
#include "cli/run/scratch_directory.h"
#include "job/job_socket.h"
#include "job/message.h"

namespace {

constexpr std::uint64_t kBudget = std::uint64_t{1} << 30;
constexpr int kCloseMaxMs = 5000;

ebb::cli::JobTerms terms() {
  ebb::cli::JobTerms terms;
  terms.budget_bytes = kBudget;
  terms.flash_bytes = kBudget;
  return terms;
}

struct Job {
  const ebb::cli::ScratchDirectory directory;
  const std::string path = directory.file("job");
  ebb::cli::JobServer server{path, terms()};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Job job;
  const int socket = ebb::connect_job(job.path);
  if (socket < 0) std::abort();
  while (size > 0) {
    const std::size_t says = *data % 4 == 0 ? sizeof(ebb::JobMessage) : *data;
    const std::size_t bytes = std::min(says, size - 1);
    static_cast<void>(::send(socket, data + 1, bytes, MSG_NOSIGNAL));
    data += 1 + bytes;
    size -= 1 + bytes;
  }
  ::shutdown(socket, SHUT_WR);
  char ignored[sizeof(ebb::JobMessage)];
  for (ssize_t received = 1; received > 0;) {
    pollfd waited{socket, POLLIN, 0};
    const int ready = ::poll(&waited, 1, kCloseMaxMs);
    if (ready < 0 && errno == EINTR) continue;  // libFuzzer looks at its clock now and then
    if (ready != 1) std::abort();
    received = ::recv(socket, ignored, sizeof ignored, 0);
  }
  ::close(socket);
  for (const ebb::cli::JobProcess& process : job.server.facts().processes) {
    if (process.peak_granted_bytes > kBudget || process.peak_resident_bytes > kBudget) std::abort();
  }
  return 0;
}
