// UringFlash: the flash device on io_uring: one ring, one request a block, a bounded number in flight.
//
// Buffers are not registered with the ring: registered pages are pinned for good and could not be moved any more.
// wake() writes to an event descriptor that the ring itself reads, so that wait() has one thing to wait for.
#pragma once

#include <liburing.h>

#include <memory>
#include <vector>

#include "drivers/linux/flash_file.h"
#include "port/raw_flash.h"

namespace ebb {

class UringFlash final : public RawFlash {
 public:
  // kUnsupported: io_uring cannot be had here; `file` is left as it was.
  static Status make(FlashFile& file, std::uint32_t depth, std::unique_ptr<UringFlash>& flash);
  ~UringFlash() override;

  std::uint32_t depth() const override { return static_cast<std::uint32_t>(slots_.size()); }
  void submit(const RawRequest& request) override;
  std::size_t poll(std::span<RawCompletion> completions) override;
  void wait(std::chrono::nanoseconds timeout) override;
  void wake() override;
  Status reserve(std::uint64_t bytes) override { return file_.grow(bytes); }
  Status read_now(std::uint64_t offset, std::span<std::byte> bytes) override { return file_.read(offset, bytes); }

 private:
  struct Slot {
    RawRequest request;
    std::size_t done = 0;
    bool busy = false;
  };
  static constexpr std::uint64_t kWakeTag = 1ull << 62;  // liburing itself uses all ones

  UringFlash() = default;
  void start(std::size_t slot);
  void listen_for_wake();
  io_uring_sqe* take_entry();
  bool finish(const io_uring_cqe& entry, RawCompletion& completion);

  FlashFile file_;
  io_uring ring_{};
  bool ring_open_ = false;
  int wake_fd_ = -1;
  std::uint64_t wake_count_ = 0;  // where the ring puts what it reads from wake_fd_
  std::vector<Slot> slots_;
  std::size_t in_flight_ = 0;
  bool woken_ = false;  // since the last wait()
};

}  // namespace ebb
