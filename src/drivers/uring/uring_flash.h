// UringFlash: the flash device on io_uring: one ring, one request a block, a bounded number in flight.
//
// Buffers are not registered with the ring: registered pages are pinned for good and could not be moved any more.
// wake() writes to an event descriptor that the ring itself reads, so that wait() has one thing to wait for.
//
// The kernel may refuse to take an entry: memory is short, a filter of system calls came later. What it has not taken
// waits in order, at most one of it in the ring, is offered again by every poll() and wait(), and after a while moved
// by pread() and pwrite() instead: slower and as good. So each request completes, whatever the ring does.
#pragma once

#include <liburing.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "base/bounded_queue.h"
#include "drivers/linux/flash/flash_file.h"
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
  Status read_now(const RawRequest& request) override { return file_.move(request); }

 private:
  struct Slot {
    RawRequest request;
    std::size_t done = 0;
    bool busy = false;
  };
  // Tags of entries that are no slot's; liburing itself uses all ones.
  static constexpr std::uint64_t kWakeTag = 1ull << 62;
  static constexpr std::uint64_t kNothingTag = 1ull << 61;

  explicit UringFlash(std::uint32_t depth) : slots_(depth), waiting_(depth + 1) {}
  void offer(std::uint64_t tag);
  void offer_waiting();
  void prepare(std::uint64_t tag);
  bool finish(const io_uring_cqe& entry, RawCompletion& completion);
  RawCompletion end(std::uint64_t slot, Status status);
  Status move_rest(const Slot& slot) const { return file_.move(slot.request, slot.done); }
  std::size_t move_waiting(std::span<RawCompletion> completions);

  FlashFile file_;
  io_uring ring_{};
  bool ring_open_ = false;
  int wake_fd_ = -1;
  std::uint64_t wake_count_ = 0;  // where the ring puts what it reads from wake_fd_
  std::vector<Slot> slots_;
  BoundedQueue<std::uint64_t> waiting_;  // tags that the kernel has not taken; the first may lie in the ring
  io_uring_sqe* offered_ = nullptr;      // the entry in the ring that the kernel has not taken
  std::uint64_t refused_since_ns_ = 0;
  std::size_t in_flight_ = 0;
  bool woken_ = false;  // since the last wait()
};

}  // namespace ebb
