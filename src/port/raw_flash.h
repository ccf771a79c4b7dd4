// RawFlash: the port to a flash device that moves bytes and knows nothing of checksums: what a driver implements.
// move/checked_flash.h turns it into a FlashQueue.
//
// Threads, buffers and completion as for FlashQueue. A short transfer is resumed inside; a completion means all bytes.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ebb/status.h"
#include "port/file_place.h"

namespace ebb {

struct RawRequest {
  bool write = false;
  std::uint32_t token = 0;
  std::uint64_t offset = 0;
  std::span<std::byte> bytes;
  // Read from this file instead, where `offset` is: of `bytes` the first `needed` (0: all), beyond which the file may
  // end.
  std::int32_t file = FilePlace::kNoFile;
  std::size_t needed = 0;

  std::size_t least() const { return needed > 0 ? needed : bytes.size(); }
};

struct RawCompletion {
  std::uint32_t token = 0;
  Status status = Status::kOk;  // kIoError, kNoSpace
};

class RawFlash {
 public:
  virtual ~RawFlash() = default;

  virtual std::uint32_t depth() const = 0;
  virtual void submit(const RawRequest& request) = 0;
  virtual std::size_t poll(std::span<RawCompletion> completions) = 0;
  virtual void wait(std::chrono::nanoseconds timeout) = 0;
  virtual void wake() = 0;
  virtual Status reserve(std::uint64_t bytes) = 0;
  // A read, at once, from any thread, also in a forked child.
  virtual Status read_now(const RawRequest& request) = 0;
};

}  // namespace ebb
