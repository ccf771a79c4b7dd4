// See transfer.h.
#include "calls/transfer.h"

#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "calls/bounce.h"

namespace ebb::calls {
namespace {

constexpr std::size_t kTransferMax = 0x7ffff000;  // the kernel does no more in one call
constexpr std::size_t kPieceParts = 16;           // of one piece: most calls have fewer buffers
constexpr std::size_t kMessageParts = 1024;       // the kernel takes no more buffers

std::size_t total_of(Buffers buffers) {
  std::size_t total = 0;
  for (const iovec& buffer : buffers) total += std::min(buffer.iov_len, kTransferMax);
  return std::min(total, kTransferMax);
}

// Calls `use` with each piece of [done, done + bytes) of the buffers: until it returns false.
template <typename F>
void for_each_part(Buffers buffers, std::size_t done, std::size_t bytes, F&& use) {
  for (const iovec& buffer : buffers) {
    if (bytes == 0) return;
    if (done >= buffer.iov_len) {
      done -= buffer.iov_len;
      continue;
    }
    const std::size_t part = std::min(buffer.iov_len - done, bytes);
    if (!use(static_cast<char*>(buffer.iov_base) + done, part)) return;
    bytes -= part;
    done = 0;
  }
}

// Whether the kernel can read a byte, asked by a call that is refused after it has read. Leaves errno.
bool readable_by_kernel(const void* data) {
  constexpr int kNoSuchWay = -1;
  // Eight bytes are read: aligned ones, so that they are of the same page.
  const auto aligned = reinterpret_cast<std::uintptr_t>(data) & ~std::uintptr_t{7};
  const int error = errno;
  const bool refused_for_it =
      ::syscall(SYS_rt_sigprocmask, kNoSuchWay, aligned, nullptr, std::size_t{8}) != 0 && errno == EFAULT;
  errno = error;
  return !refused_for_it;
}

void give_back(void* bounce) { static_cast<Bounce*>(bounce)->give_back(); }

// A cancelled thread leaves from inside the call, and must leave the bounce behind.
ssize_t attempt_with(Bounce& bounce, Attempt attempt, Buffers buffers, std::size_t done) {
  ssize_t result = -1;
  pthread_cleanup_push(&give_back, &bounce);
  result = attempt(buffers, done);
  pthread_cleanup_pop(0);
  return result;
}

// A piece of a transfer: the program's buffers, with a part of the bounce in the place of what is managed.
class Piece {
 public:
  // `theirs` and `used` have room for this many parts.
  Piece(char** theirs, iovec* used, std::size_t parts_max, Registered kind)
      : theirs_(theirs), used_(used), parts_max_(parts_max), kind_(kind) {}

  // Takes what comes after `done` bytes, as far as there is room for it.
  void take(Buffers buffers, std::size_t done, std::size_t total, char* bounce, std::size_t bounce_bytes) {
    for_each_part(buffers, done, total - done, [&](char* data, std::size_t bytes) {
      while (bytes > 0) {
        const Segment segment = segment_at(data, bytes, kind_);
        const std::size_t fits = segment.registered ? std::min(segment.bytes, bounce_bytes) : segment.bytes;
        if (parts_ == parts_max_ || fits == 0) return false;
        theirs_[parts_] = data;
        used_[parts_++] = {segment.registered ? bounce : data, fits};
        if (segment.registered) {
          bounce += fits;
          bounce_bytes -= fits;
        }
        bytes_ += fits;
        data += fits;
        bytes -= fits;
      }
      return true;
    });
  }

  Buffers buffers() const { return {used_, parts_}; }
  std::size_t bytes() const { return bytes_; }

  void fill() {
    for (std::size_t i = 0; i < parts_; ++i) {
      if (used_[i].iov_base != theirs_[i]) ::memcpy(used_[i].iov_base, theirs_[i], used_[i].iov_len);
    }
  }
  void empty(std::size_t bytes) {
    for (std::size_t i = 0; i < parts_ && bytes > 0; ++i) {
      const std::size_t part = std::min(bytes, used_[i].iov_len);
      if (used_[i].iov_base != theirs_[i]) ::memcpy(theirs_[i], used_[i].iov_base, part);
      bytes -= part;
    }
  }

 private:
  char** theirs_;
  iovec* used_;
  std::size_t parts_max_;
  Registered kind_;
  std::size_t parts_ = 0;
  std::size_t bytes_ = 0;
};

ssize_t result_of(std::size_t done, ssize_t last) { return done > 0 ? static_cast<ssize_t>(done) : last; }

}  // namespace

bool may_be_absent(Buffers buffers) {
  if (g_absent_hull.empty()) return false;
  return std::any_of(buffers.begin(), buffers.end(),
                     [](const iovec& buffer) { return may_be_absent(buffer.iov_base, buffer.iov_len); });
}

ssize_t Transfer::run(Buffers buffers, Attempt attempt) const {
  const bool managed = std::any_of(buffers.begin(), buffers.end(), [this](const iovec& buffer) {
    return registered(buffer.iov_base, buffer.iov_len, kind());
  });
  if (!managed) return attempt(buffers, 0);
  const int error = errno;
  const std::size_t total = total_of(buffers);
  ssize_t result = -1;
  if (kept_pages_bytes > 0) {
    result = run_whole(buffers, std::min(total, kept_pages_bytes), attempt);
  } else if (endpoint == Endpoint::kMessage) {
    result = run_whole(buffers, total, attempt);
  } else if (endpoint == Endpoint::kDevice) {
    result = run_pieces(buffers, total, 0, attempt);
  } else {
    const ssize_t first = attempt(buffers, 0);
    if (first < 0 && errno != EFAULT) return first;
    const std::size_t done = first > 0 ? static_cast<std::size_t>(first) : 0;
    const bool ended = first == 0 && total > 0;
    const bool leave = done >= total || ended || (first > 0 && !goes_on(buffers, done));
    result = leave ? first : run_pieces(buffers, total, done, attempt);
  }
  if (result >= 0) errno = error;
  return result;
}

// After a part that the kernel has done by itself.
bool Transfer::goes_on(Buffers buffers, std::size_t done) const {
  if (once) return false;
  if (endpoint == Endpoint::kFile) return true;
  if (direction == Direction::kIn && !until_full) return false;
  // A signal may have ended it, and then going on could be waiting for ever.
  bool absent = false;
  for_each_part(buffers, done, 1, [&](const char* data, std::size_t) {
    absent = registered(data, 1, kAbsentFails) && !readable_by_kernel(data);
    return false;
  });
  return absent;
}

// After a piece through the bounce, which no fault has cut short.
bool Transfer::another_piece(bool whole) const {
  if (endpoint == Endpoint::kFile) return true;
  if (!whole || direction == Direction::kOut || until_full) return whole;
  pollfd polled{fd, POLLIN, 0};
  return endpoint == Endpoint::kDevice && ::poll(&polled, 1, 0) == 1 && (polled.revents & POLLIN) != 0;
}

ssize_t Transfer::run_pieces(Buffers buffers, std::size_t total, std::size_t done, Attempt attempt) const {
  Bounce bounce = Bounce::take(Bounce::kBytes);
  if (bounce.data() == nullptr) {
    errno = ENOMEM;
    return result_of(done, -1);
  }
  ssize_t last = 0;
  while (done < total) {
    char* theirs[kPieceParts];
    iovec used[kPieceParts];
    Piece piece(theirs, used, kPieceParts, kind());
    piece.take(buffers, done, total, bounce.data(), bounce.bytes());
    if (direction == Direction::kOut) piece.fill();
    last = attempt_with(bounce, attempt, piece.buffers(), done);
    if (last <= 0) break;
    const auto moved = static_cast<std::size_t>(last);
    if (direction == Direction::kIn) piece.empty(moved);
    done += moved;
    if (once || !another_piece(moved >= piece.bytes())) break;
  }
  bounce.give_back();
  return result_of(done, last);
}

// Not cut, so the bounce is as large as the message may be; pages of it that nothing is stored into cost nothing.
ssize_t Transfer::run_whole(Buffers buffers, std::size_t total, Attempt attempt) const {
  constexpr std::size_t kLists = kMessageParts * (sizeof(iovec) + sizeof(char*));
  Bounce bounce = kept_pages_bytes > 0 ? Bounce::fresh(kLists + total) : Bounce::take(kLists + total);
  if (bounce.data() == nullptr) {
    errno = ENOMEM;
    return -1;
  }
  auto* const used = reinterpret_cast<iovec*>(bounce.data());
  Piece piece(reinterpret_cast<char**>(used + kMessageParts), used, kMessageParts, kind());
  piece.take(buffers, 0, total, bounce.data() + kLists, bounce.bytes() - kLists);
  ssize_t result = -1;
  if (piece.bytes() < total) {
    errno = EMSGSIZE;
  } else {
    if (direction == Direction::kOut) piece.fill();
    result = attempt_with(bounce, attempt, piece.buffers(), 0);
    if (result > 0 && direction == Direction::kIn) piece.empty(static_cast<std::size_t>(result));
  }
  bounce.give_back();
  return result;
}

}  // namespace ebb::calls
