// FlashFile: the unnamed file that holds the flash tier: nothing to steal while it runs, nothing left after a crash.
//
// Mode 0600, O_DIRECT where the file system can, space allocated before it is used, so that a full disk is met when the
// store grows and never in the middle of an eviction. Move-only owner of the descriptor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "ebb/status.h"
#include "port/raw_flash.h"

namespace ebb {

class FlashFile {
 public:
  FlashFile() = default;
  // Throws Error with the remedy: no such directory, not writable, a RAM disk.
  static FlashFile open(const std::string& directory);
  FlashFile(FlashFile&& other) noexcept { *this = std::move(other); }
  FlashFile& operator=(FlashFile&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(direct_, other.direct_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~FlashFile();

  int fd() const { return fd_; }
  bool direct() const { return direct_; }
  // Bytes that the file system has left for us.
  std::uint64_t free_bytes() const;
  // How large the file may become: flash_share() of what is left, and never larger than this process may make a file
  // (`ulimit -f`). What there is no room for is an error of an allocation then, not of a touch.
  std::uint64_t most_bytes(std::uint64_t wanted) const;
  // Makes the first `bytes` of the file usable; kNoSpace, kIoError.
  Status grow(std::uint64_t bytes);
  // The whole span, synchronously; `buffer` aligned to 4 KiB.
  Status read(std::uint64_t offset, std::span<std::byte> buffer) const;
  Status write(std::uint64_t offset, std::span<const std::byte> buffer) const;
  // What is left of a request of which `done` bytes have been moved, from or to this file or the one that it names.
  Status move(const RawRequest& request, std::size_t done = 0) const;
  int fd_of(const RawRequest& request) const { return request.file >= 0 ? request.file : fd_; }

 private:
  int fd_ = -1;
  bool direct_ = false;
  std::uint64_t size_ = 0;
};

// Of a file system that has so many bytes left: as many as are wanted, or if that is 0 all but a tenth; never more than
// are left, unless it says that none are, as some do, whatever is there.
std::uint64_t flash_share(std::uint64_t wanted, std::uint64_t left);

// The directory that is used when none is named: $TMPDIR or /tmp.
std::string default_flash_directory();

}  // namespace ebb
