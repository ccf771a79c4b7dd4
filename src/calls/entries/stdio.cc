// The interposed fread and fwrite. The C library moves large blocks between the program's buffer and the file without
// its own in between, by calls that cannot be interposed: what they fail at is done in pieces that it can move.
//
// Called with a size of one byte, they return the bytes that were done. The stream stays locked from the first attempt
// to the last: to other threads it is one call.
#include <stdio.h>
#include <string.h>

#include <algorithm>

#include "calls/bounce.h"
#include "calls/entries/entry.h"
#include "calls/ranges.h"
#include "calls/transfer.h"

namespace ebb::calls {
namespace {

using Fread = Next<"fread", std::size_t(void*, std::size_t, std::size_t, FILE*)>;
using Fwrite = Next<"fwrite", std::size_t(const void*, std::size_t, std::size_t, FILE*)>;
using FreadUnlocked = Next<"fread_unlocked", std::size_t(void*, std::size_t, std::size_t, FILE*)>;
using FwriteUnlocked = Next<"fwrite_unlocked", std::size_t(const void*, std::size_t, std::size_t, FILE*)>;
using FreadChecked = Next<"__fread_chk", std::size_t(void*, std::size_t, std::size_t, std::size_t, FILE*)>;
using FreadUnlockedChecked =
    Next<"__fread_unlocked_chk", std::size_t(void*, std::size_t, std::size_t, std::size_t, FILE*)>;

// Whether a first attempt has failed only because memory was absent; the stream then forgets the error.
bool was_absent(FILE* file, bool failed_before, const void* rest) {
  if (failed_before || errno != EFAULT || ::ferror_unlocked(file) == 0) return false;
  if (!segment_at(rest, 1, kAbsentFails).registered) return false;
  ::clearerr_unlocked(file);
  return true;
}

// Calls `piece(bounce, data, bytes)` with each piece of what is left, until one is not done wholly; the bytes done.
template <typename F>
std::size_t in_pieces(char* data, std::size_t bytes, F&& piece) {
  Bounce bounce = Bounce::take(Bounce::kBytes);
  std::size_t done = 0;
  while (bounce.data() != nullptr && done < bytes) {
    const std::size_t wanted = std::min(bytes - done, bounce.bytes());
    const std::size_t got = piece(bounce.data(), data + done, wanted);
    done += got;
    if (got < wanted) break;
  }
  bounce.give_back();
  return done;
}

// Bytes read into `data`, which may be managed. The stream is locked.
std::size_t read_locked(char* data, std::size_t bytes, FILE* file) {
  const int error = errno;
  const bool failed_before = ::ferror_unlocked(file) != 0;
  errno = 0;
  std::size_t done = FreadUnlocked::call(data, 1, bytes, file);
  if (done < bytes && was_absent(file, failed_before, data + done)) {
    errno = 0;
    done += in_pieces(data + done, bytes - done, [file](char* bounce, char* to, std::size_t wanted) {
      const std::size_t got = FreadUnlocked::call(bounce, 1, wanted, file);
      ::memcpy(to, bounce, got);
      return got;
    });
  }
  if (errno == 0) errno = error;
  return done;
}

std::size_t write_locked(char* data, std::size_t bytes, FILE* file) {
  const int error = errno;
  const bool failed_before = ::ferror_unlocked(file) != 0;
  errno = 0;
  std::size_t done = FwriteUnlocked::call(data, 1, bytes, file);
  if (done < bytes && was_absent(file, failed_before, data + done)) {
    errno = 0;
    done += in_pieces(data + done, bytes - done, [file](char* bounce, const char* from, std::size_t wanted) {
      ::memcpy(bounce, from, wanted);
      return FwriteUnlocked::call(bounce, 1, wanted, file);
    });
  }
  if (errno == 0) errno = error;
  return done;
}

// Whether it is for us: bytes there are, and not more than can be, and some of them may be absent.
bool concerns(const void* data, std::size_t size, std::size_t count, std::size_t& bytes) {
  return !g_absent_hull.empty() && !__builtin_mul_overflow(size, count, &bytes) && bytes > 0 &&
         may_be_absent(data, bytes);
}

}  // namespace

extern "C" {

EBB_ENTRY std::size_t fread(void* data, std::size_t size, std::size_t count, FILE* file) {
  std::size_t bytes = 0;
  if (!concerns(data, size, count, bytes)) return Fread::call(data, size, count, file);
  ::flockfile(file);
  const std::size_t done = read_locked(static_cast<char*>(data), bytes, file);
  ::funlockfile(file);
  return done / size;
}

EBB_ENTRY std::size_t fwrite(const void* data, std::size_t size, std::size_t count, FILE* file) {
  std::size_t bytes = 0;
  if (!concerns(data, size, count, bytes)) return Fwrite::call(data, size, count, file);
  ::flockfile(file);
  const std::size_t done = write_locked(static_cast<char*>(const_cast<void*>(data)), bytes, file);
  ::funlockfile(file);
  return done / size;
}

EBB_ENTRY std::size_t fread_unlocked(void* data, std::size_t size, std::size_t count, FILE* file) {
  std::size_t bytes = 0;
  if (!concerns(data, size, count, bytes)) return FreadUnlocked::call(data, size, count, file);
  return read_locked(static_cast<char*>(data), bytes, file) / size;
}

EBB_ENTRY std::size_t fwrite_unlocked(const void* data, std::size_t size, std::size_t count, FILE* file) {
  std::size_t bytes = 0;
  if (!concerns(data, size, count, bytes)) return FwriteUnlocked::call(data, size, count, file);
  return write_locked(static_cast<char*>(const_cast<void*>(data)), bytes, file) / size;
}

EBB_ENTRY std::size_t __fread_chk(void* data, std::size_t room, std::size_t size, std::size_t count, FILE* file) {
  std::size_t bytes = 0;
  const bool ours = concerns(data, size, count, bytes) && bytes <= room;
  return ours ? fread(data, size, count, file) : FreadChecked::call(data, room, size, count, file);
}

EBB_ENTRY std::size_t __fread_unlocked_chk(void* data, std::size_t room, std::size_t size, std::size_t count,
                                           FILE* file) {
  std::size_t bytes = 0;
  const bool ours = concerns(data, size, count, bytes) && bytes <= room;
  return ours ? fread_unlocked(data, size, count, file) : FreadUnlockedChecked::call(data, room, size, count, file);
}

}  // extern "C"
}  // namespace ebb::calls
