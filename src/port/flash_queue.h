// FlashQueue: the port to the flash tier: an asynchronous queue of block-sized reads and writes.
//
// Threads: one thread submits, polls and waits; any thread may call wake(). Buffers: the frame of a request belongs to
// the queue from submit() until its completion has been polled; the queue neither frees nor moves it. Every request
// completes exactly once, with all of its bytes transferred or an error: short transfers are resumed inside.
// Destroying a queue waits for what is in flight.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>

#include "base/digest.h"
#include "base/index.h"
#include "ebb/status.h"
#include "port/file_place.h"

namespace ebb {

struct FlashRequest {
  enum class Kind : std::uint8_t { kRead, kWrite };
  Kind kind = Kind::kRead;
  // Write: `expected` is the digest of the copy that flash already has, in `copy`; if the frame still has what is
  // there, nothing is written. Read: it is what the bytes must have; without it, nobody knows yet.
  bool has_expected = false;
  std::uint32_t token = 0;  // comes back in the completion
  FrameIndex frame = {};
  ExtentIndex extent = {};
  Digest expected = {};
  // The copy is in a file of the program's instead of the extent. A write then only finds out whether it is needed: the
  // file is never written.
  FilePlace place = {};
  ExtentIndex copy = {};  // may be another than that for a write; the same for a file
};

struct FlashCompletion {
  std::uint32_t token = 0;
  // kOk, kIoError, kNoSpace (write), kCorrupt (read: the digest differs).
  Status status = Status::kOk;
  bool unchanged = false;  // write: skipped, the bytes are those with `expected`
  Digest digest;           // of the bytes written, or read
  bool zeros = false;      // nothing had to move: the bytes are all zero
  bool homeless = false;   // write to a file: the bytes are not those with `expected`, and nothing was written
};

class FlashQueue {
 public:
  virtual ~FlashQueue() = default;

  // How many requests may be in flight at once.
  virtual std::uint32_t depth() const = 0;
  // At most depth() less those in flight.
  virtual void submit(std::span<const FlashRequest> requests) = 0;
  // Takes completions, as many as there are and fit; does not block. Returns how many.
  virtual std::size_t poll(std::span<FlashCompletion> completions) = 0;
  // Blocks until a completion can be polled, wake() was called since the last wait(), or the time is over.
  virtual void wait(std::chrono::nanoseconds timeout) = 0;
  virtual void wake() = 0;
  // Makes room for extents [0, count); kNoSpace or kIoError: `count` stays what it was.
  virtual Status reserve(std::uint32_t count) = 0;
};

}  // namespace ebb
