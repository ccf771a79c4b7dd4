// Transfer: one call that moves bytes between a descriptor and buffers of which a part is managed. Tried as it is;
// where the kernel met absent memory, the rest is done through a bounce buffer, which the program's own loads and
// stores fill and empty: those are served in user mode, as any touch is, and fail as any touch does.
//
// What returns is what the kernel would have returned: the count of bytes, or -1 and errno. A buffer that is not
// managed is handed to the kernel as it is, so a bad pointer stays EFAULT. No lock, no malloc: write(2) is allowed in
// signal handlers. The thread may be cancelled where the call itself can be.
#pragma once

#include <errno.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <span>
#include <type_traits>

#include "calls/endpoint.h"
#include "calls/ranges.h"

namespace ebb::calls {

using Buffers = std::span<const iovec>;

enum class Direction { kIn, kOut };  // the kernel stores into the buffers, or loads from them

// The call itself, on other buffers than the program's, `done` bytes into the transfer. By reference: lives as long as
// the expression that makes it.
class Attempt {
 public:
  template <typename F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, Attempt>)
      Attempt(F&& attempt)  // NOLINT: lambdas are passed as attempts
      : object_(const_cast<void*>(static_cast<const void*>(&attempt))),
        call_([](void* object, Buffers buffers, std::size_t done) -> ssize_t {
          return (*static_cast<std::remove_reference_t<F>*>(object))(buffers, done);
        }) {}
  ssize_t operator()(Buffers buffers, std::size_t done) const { return call_(object_, buffers, done); }

 private:
  void* object_;
  ssize_t (*call_)(void*, Buffers, std::size_t);
};

struct Transfer {
  int fd;
  Direction direction;
  Endpoint endpoint;
  bool until_full = false;  // MSG_WAITALL: a stream goes on until all is done
  bool once = false;        // a part that is done is not gone on from: what comes beside the bytes would be lost
  // The kernel keeps references to the pages: it gets pages that nobody else will have, whatever is absent, and no more
  // than this many bytes of them.
  std::size_t kept_pages_bytes = 0;

  ssize_t run(Buffers buffers, Attempt attempt) const;

 private:
  ssize_t run_pieces(Buffers buffers, std::size_t total, std::size_t done, Attempt attempt) const;
  ssize_t run_whole(Buffers buffers, std::size_t total, Attempt attempt) const;
  bool goes_on(Buffers buffers, std::size_t done) const;
  bool another_piece(bool whole) const;
  Registered kind() const { return kept_pages_bytes > 0 ? kManaged : kAbsentFails; }
};

// Whether a call on these has to be looked at: the one question that every call asks.
inline bool may_be_absent(const void* data, std::size_t bytes) { return g_absent_hull.meets(data, bytes); }
bool may_be_absent(Buffers buffers);

}  // namespace ebb::calls
