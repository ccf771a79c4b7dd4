// The interposed calls on descriptors of any kind: read, write and their kin.
#include <limits.h>
#include <sys/uio.h>
#include <unistd.h>

#include "calls/entries/entry.h"
#include "calls/transfer.h"

namespace ebb::calls {
namespace {

using Read = Next<"read", ssize_t(int, void*, std::size_t)>;
using Write = Next<"write", ssize_t(int, const void*, std::size_t)>;
using Pread = Next<"pread", ssize_t(int, void*, std::size_t, off_t)>;
using Pwrite = Next<"pwrite", ssize_t(int, const void*, std::size_t, off_t)>;
using Readv = Next<"readv", ssize_t(int, const iovec*, int)>;
using Writev = Next<"writev", ssize_t(int, const iovec*, int)>;
using Preadv = Next<"preadv", ssize_t(int, const iovec*, int, off_t)>;
using Pwritev = Next<"pwritev", ssize_t(int, const iovec*, int, off_t)>;
using Preadv2 = Next<"preadv2", ssize_t(int, const iovec*, int, off_t, int)>;
using Pwritev2 = Next<"pwritev2", ssize_t(int, const iovec*, int, off_t, int)>;
using ReadChecked = Next<"__read_chk", ssize_t(int, void*, std::size_t, std::size_t)>;
using PreadChecked = Next<"__pread_chk", ssize_t(int, void*, std::size_t, off_t, std::size_t)>;
static_assert(sizeof(off_t) == sizeof(off64_t), "the 64 kinds are the same calls");

constexpr off_t kHere = -1;  // of preadv2 and pwritev2: at the position of the file

// What the kernel would not look at either is no buffers here.
Buffers span_of(const iovec* buffers, int count) {
  const bool sound = buffers != nullptr && count > 0 && count <= IOV_MAX;
  return {buffers, static_cast<std::size_t>(sound ? count : 0)};
}
int count_of(Buffers buffers) { return static_cast<int>(buffers.size()); }

ssize_t read_managed(int fd, Buffers buffers) {
  const Transfer transfer{fd, Direction::kIn, endpoint_of(fd)};
  return transfer.run(buffers, [fd](Buffers b, std::size_t) { return Readv::call(fd, b.data(), count_of(b)); });
}

ssize_t write_managed(int fd, Buffers buffers) {
  const Transfer transfer{fd, Direction::kOut, endpoint_of(fd)};
  return transfer.run(buffers, [fd](Buffers b, std::size_t) { return Writev::call(fd, b.data(), count_of(b)); });
}

ssize_t pread_managed(int fd, Buffers buffers, off_t offset) {
  const Transfer transfer{fd, Direction::kIn, endpoint_of(fd)};
  return transfer.run(buffers, [=](Buffers b, std::size_t done) {
    return Preadv::call(fd, b.data(), count_of(b), offset + static_cast<off_t>(done));
  });
}

ssize_t pwrite_managed(int fd, Buffers buffers, off_t offset) {
  const Transfer transfer{fd, Direction::kOut, endpoint_of(fd)};
  return transfer.run(buffers, [=](Buffers b, std::size_t done) {
    return Pwritev::call(fd, b.data(), count_of(b), offset + static_cast<off_t>(done));
  });
}

// Out of line, so that what is not managed pays for nothing but the question.
[[gnu::noinline]] ssize_t read_managed(int fd, void* data, std::size_t bytes) {
  const iovec buffer{data, bytes};
  return read_managed(fd, {&buffer, 1});
}

[[gnu::noinline]] ssize_t write_managed(int fd, const void* data, std::size_t bytes) {
  const iovec buffer{const_cast<void*>(data), bytes};
  return write_managed(fd, {&buffer, 1});
}

[[gnu::noinline]] ssize_t pread_managed(int fd, void* data, std::size_t bytes, off_t offset) {
  const iovec buffer{data, bytes};
  return pread_managed(fd, {&buffer, 1}, offset);
}

[[gnu::noinline]] ssize_t pwrite_managed(int fd, const void* data, std::size_t bytes, off_t offset) {
  const iovec buffer{const_cast<void*>(data), bytes};
  return pwrite_managed(fd, {&buffer, 1}, offset);
}

}  // namespace

extern "C" {

EBB_ENTRY ssize_t read(int fd, void* data, std::size_t bytes) {
  if (!may_be_absent(data, bytes)) return Read::call(fd, data, bytes);
  return read_managed(fd, data, bytes);
}

EBB_ENTRY ssize_t write(int fd, const void* data, std::size_t bytes) {
  if (!may_be_absent(data, bytes)) return Write::call(fd, data, bytes);
  return write_managed(fd, data, bytes);
}

EBB_ENTRY ssize_t pread(int fd, void* data, std::size_t bytes, off_t offset) {
  if (!may_be_absent(data, bytes)) return Pread::call(fd, data, bytes, offset);
  return pread_managed(fd, data, bytes, offset);
}

EBB_ENTRY ssize_t pwrite(int fd, const void* data, std::size_t bytes, off_t offset) {
  if (!may_be_absent(data, bytes)) return Pwrite::call(fd, data, bytes, offset);
  return pwrite_managed(fd, data, bytes, offset);
}

EBB_ENTRY ssize_t readv(int fd, const iovec* buffers, int count) {
  if (!may_be_absent(span_of(buffers, count))) return Readv::call(fd, buffers, count);
  return read_managed(fd, span_of(buffers, count));
}

EBB_ENTRY ssize_t writev(int fd, const iovec* buffers, int count) {
  if (!may_be_absent(span_of(buffers, count))) return Writev::call(fd, buffers, count);
  return write_managed(fd, span_of(buffers, count));
}

EBB_ENTRY ssize_t preadv(int fd, const iovec* buffers, int count, off_t offset) {
  if (!may_be_absent(span_of(buffers, count))) return Preadv::call(fd, buffers, count, offset);
  return pread_managed(fd, span_of(buffers, count), offset);
}

EBB_ENTRY ssize_t pwritev(int fd, const iovec* buffers, int count, off_t offset) {
  if (!may_be_absent(span_of(buffers, count))) return Pwritev::call(fd, buffers, count, offset);
  return pwrite_managed(fd, span_of(buffers, count), offset);
}

EBB_ENTRY ssize_t preadv2(int fd, const iovec* buffers, int count, off_t offset, int flags) {
  if (!may_be_absent(span_of(buffers, count))) return Preadv2::call(fd, buffers, count, offset, flags);
  const Transfer transfer{fd, Direction::kIn, endpoint_of(fd)};
  return transfer.run(span_of(buffers, count), [=](Buffers b, std::size_t done) {
    const off_t at = offset == kHere ? kHere : offset + static_cast<off_t>(done);
    return Preadv2::call(fd, b.data(), count_of(b), at, flags);
  });
}

EBB_ENTRY ssize_t pwritev2(int fd, const iovec* buffers, int count, off_t offset, int flags) {
  if (!may_be_absent(span_of(buffers, count))) return Pwritev2::call(fd, buffers, count, offset, flags);
  const Transfer transfer{fd, Direction::kOut, endpoint_of(fd)};
  return transfer.run(span_of(buffers, count), [=](Buffers b, std::size_t done) {
    const off_t at = offset == kHere ? kHere : offset + static_cast<off_t>(done);
    return Pwritev2::call(fd, b.data(), count_of(b), at, flags);
  });
}

// What _FORTIFY_SOURCE makes of calls on buffers of known size; one that is too small is for the C library to report.
EBB_ENTRY ssize_t __read_chk(int fd, void* data, std::size_t bytes, std::size_t room) {
  if (bytes > room || !may_be_absent(data, bytes)) return ReadChecked::call(fd, data, bytes, room);
  return read(fd, data, bytes);
}

EBB_ENTRY ssize_t __pread_chk(int fd, void* data, std::size_t bytes, off_t offset, std::size_t room) {
  if (bytes > room || !may_be_absent(data, bytes)) return PreadChecked::call(fd, data, bytes, offset, room);
  return pread(fd, data, bytes, offset);
}

}  // extern "C"

EBB_ALIAS(pread64, pread);
EBB_ALIAS(pwrite64, pwrite);
EBB_ALIAS(preadv64, preadv);
EBB_ALIAS(pwritev64, pwritev);
EBB_ALIAS(preadv64v2, preadv2);
EBB_ALIAS(pwritev64v2, pwritev2);
EBB_ALIAS(__pread64_chk, __pread_chk);
// Names that the C library has had for programs built long ago.
EBB_ALIAS(__read, read);
EBB_ALIAS(__write, write);
EBB_ALIAS(__pread64, pread);
EBB_ALIAS(__pwrite64, pwrite);

}  // namespace ebb::calls
