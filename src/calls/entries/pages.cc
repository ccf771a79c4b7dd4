// The interposed calls of other kinds: those that hand pages to the kernel, and those that copy without a descriptor.
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>

#include "calls/bounce.h"
#include "calls/entries/entry.h"
#include "calls/transfer.h"

namespace ebb::calls {
namespace {

using Vmsplice = Next<"vmsplice", ssize_t(int, const iovec*, std::size_t, unsigned)>;
using ProcessRead =
    Next<"process_vm_readv", ssize_t(pid_t, const iovec*, unsigned long, const iovec*, unsigned long, unsigned long)>;
using ProcessWrite =
    Next<"process_vm_writev", ssize_t(pid_t, const iovec*, unsigned long, const iovec*, unsigned long, unsigned long)>;
using Getrandom = Next<"getrandom", ssize_t(void*, std::size_t, unsigned)>;
using Getentropy = Next<"getentropy", int(void*, std::size_t)>;

constexpr int kNoDescriptor = -1;

Buffers span_of(const iovec* buffers, std::size_t count) {
  return {buffers, buffers != nullptr && count <= IOV_MAX ? count : 0};
}

bool any_managed(Buffers buffers) {
  return !g_managed_hull.empty() && std::any_of(buffers.begin(), buffers.end(), [](const iovec& buffer) {
    return g_managed_hull.meets(buffer.iov_base, buffer.iov_len);
  });
}

// As many bytes as the kernel would take: into a pipe, what there is room for.
std::size_t room_of(int pipe) {
  const int bytes = ::fcntl(pipe, F_GETPIPE_SZ);
  return bytes > 0 ? static_cast<std::size_t>(bytes) : Bounce::kBytes;
}

}  // namespace

extern "C" {

// The pipe keeps the pages, and what is managed has others tomorrow.
EBB_ENTRY ssize_t vmsplice(int fd, const iovec* buffers, std::size_t count, unsigned flags) {
  if (!any_managed(span_of(buffers, count))) return Vmsplice::call(fd, buffers, count, flags);
  const bool in = (::fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY;
  Transfer transfer{fd, in ? Direction::kIn : Direction::kOut, Endpoint::kStream};
  if (!in) transfer.kept_pages_bytes = room_of(fd);
  const unsigned asked = in ? flags : flags & ~unsigned{SPLICE_F_GIFT};
  return transfer.run(span_of(buffers, count),
                      [fd, asked](Buffers b, std::size_t) { return Vmsplice::call(fd, b.data(), b.size(), asked); });
}

EBB_ENTRY ssize_t process_vm_readv(pid_t process, const iovec* own, unsigned long count, const iovec* remote,
                                   unsigned long remote_count, unsigned long flags) noexcept {
  if (!may_be_absent(span_of(own, count))) {
    return ProcessRead::call(process, own, count, remote, remote_count, flags);
  }
  const Transfer transfer{kNoDescriptor, Direction::kIn, Endpoint::kMessage};
  return transfer.run(span_of(own, count), [=](Buffers b, std::size_t) {
    return ProcessRead::call(process, b.data(), b.size(), remote, remote_count, flags);
  });
}

EBB_ENTRY ssize_t process_vm_writev(pid_t process, const iovec* own, unsigned long count, const iovec* remote,
                                    unsigned long remote_count, unsigned long flags) noexcept {
  if (!may_be_absent(span_of(own, count))) {
    return ProcessWrite::call(process, own, count, remote, remote_count, flags);
  }
  const Transfer transfer{kNoDescriptor, Direction::kOut, Endpoint::kMessage};
  return transfer.run(span_of(own, count), [=](Buffers b, std::size_t) {
    return ProcessWrite::call(process, b.data(), b.size(), remote, remote_count, flags);
  });
}

EBB_ENTRY ssize_t getrandom(void* data, std::size_t bytes, unsigned flags) {
  if (!may_be_absent(data, bytes)) return Getrandom::call(data, bytes, flags);
  const iovec buffer{data, bytes};
  const Transfer transfer{kNoDescriptor, Direction::kIn, Endpoint::kFile};
  return transfer.run({&buffer, 1}, [flags](Buffers b, std::size_t) {
    return Getrandom::call(b.front().iov_base, b.front().iov_len, flags);
  });
}

EBB_ENTRY int getentropy(void* data, std::size_t bytes) {
  constexpr std::size_t kMost = 256;  // at once; more is an error
  if (bytes > kMost || !may_be_absent(data, bytes) || !registered(data, bytes, kAbsentFails)) {
    return Getentropy::call(data, bytes);
  }
  char local[kMost];
  const int result = Getentropy::call(local, bytes);
  if (result == 0) ::memcpy(data, local, bytes);
  return result;
}

}  // extern "C"
}  // namespace ebb::calls
