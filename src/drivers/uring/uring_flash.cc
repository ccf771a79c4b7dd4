// See uring_flash.h.
#include "drivers/uring/uring_flash.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/check.h"

namespace ebb {

Status UringFlash::make(FlashFile& file, std::uint32_t depth, std::unique_ptr<UringFlash>& flash) {
  std::unique_ptr<UringFlash> made(new UringFlash);
  // Every slot can have one entry queued, and the wake-up another.
  if (::io_uring_queue_init(depth + 2, &made->ring_, 0) != 0) return Status::kUnsupported;
  made->ring_open_ = true;
  ::io_uring_ring_dontfork(&made->ring_);
  made->wake_fd_ = ::eventfd(0, EFD_CLOEXEC);
  if (made->wake_fd_ < 0) return Status::kUnsupported;
  made->slots_.resize(depth);
  made->file_ = std::move(file);
  made->listen_for_wake();
  flash = std::move(made);
  return Status::kOk;
}

UringFlash::~UringFlash() {
  RawCompletion completion;
  while (in_flight_ > 0) {
    wait(std::chrono::milliseconds(100));
    poll({&completion, 1});
  }
  if (ring_open_) ::io_uring_queue_exit(&ring_);
  if (wake_fd_ >= 0) ::close(wake_fd_);
}

io_uring_sqe* UringFlash::take_entry() {
  io_uring_sqe* entry = ::io_uring_get_sqe(&ring_);
  if (entry == nullptr) {
    ::io_uring_submit(&ring_);
    entry = ::io_uring_get_sqe(&ring_);
  }
  EBB_CHECK(entry != nullptr);
  return entry;
}

void UringFlash::listen_for_wake() {
  io_uring_sqe* const entry = take_entry();
  ::io_uring_prep_read(entry, wake_fd_, &wake_count_, sizeof wake_count_, 0);
  ::io_uring_sqe_set_data64(entry, kWakeTag);
  ::io_uring_submit(&ring_);
}

void UringFlash::submit(const RawRequest& request) {
  std::size_t slot = 0;
  while (slot < slots_.size() && slots_[slot].busy) ++slot;
  EBB_CHECK_LT(slot, slots_.size());
  slots_[slot] = {request, 0, true};
  ++in_flight_;
  start(slot);
}

// Submits what is left of a request.
void UringFlash::start(std::size_t index) {
  const Slot& slot = slots_[index];
  const RawRequest& request = slot.request;
  io_uring_sqe* const entry = take_entry();
  std::byte* const data = request.bytes.data() + slot.done;
  const auto bytes = static_cast<unsigned>(request.bytes.size() - slot.done);
  if (request.write) {
    ::io_uring_prep_write(entry, file_.fd(), data, bytes, request.offset + slot.done);
  } else {
    ::io_uring_prep_read(entry, file_.fd(), data, bytes, request.offset + slot.done);
  }
  ::io_uring_sqe_set_data64(entry, index);
  ::io_uring_submit(&ring_);
}

// Whether the entry ends its request.
bool UringFlash::finish(const io_uring_cqe& entry, RawCompletion& completion) {
  Slot& slot = slots_[entry.user_data];
  EBB_CHECK(slot.busy);
  if (entry.res == -EINTR || entry.res == -EAGAIN) {
    start(entry.user_data);
    return false;
  }
  if (entry.res > 0) {
    slot.done += static_cast<std::size_t>(entry.res);
    if (slot.done < slot.request.bytes.size()) {
      start(entry.user_data);
      return false;
    }
  }
  completion.token = slot.request.token;
  const bool full = entry.res == -ENOSPC || entry.res == -EDQUOT || entry.res == -EFBIG;
  completion.status = entry.res > 0 ? Status::kOk : full ? Status::kNoSpace : Status::kIoError;
  slot.busy = false;
  --in_flight_;
  return true;
}

std::size_t UringFlash::poll(std::span<RawCompletion> completions) {
  std::size_t found = 0;
  io_uring_cqe* entry = nullptr;
  while (found < completions.size() && ::io_uring_peek_cqe(&ring_, &entry) == 0) {
    const io_uring_cqe copy = *entry;
    ::io_uring_cqe_seen(&ring_, entry);
    if (copy.user_data == kWakeTag) {
      woken_ = true;
      listen_for_wake();
    } else if (finish(copy, completions[found])) {
      ++found;
    }
  }
  return found;
}

void UringFlash::wait(std::chrono::nanoseconds timeout) {
  // A poll() may have seen the wake-up first.
  if (std::exchange(woken_, false)) return;
  __kernel_timespec limit{timeout.count() / 1'000'000'000, timeout.count() % 1'000'000'000};
  io_uring_cqe* entry = nullptr;
  ::io_uring_wait_cqe_timeout(&ring_, &entry, &limit);
}

void UringFlash::wake() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto put = ::write(wake_fd_, &one, sizeof one);
}

}  // namespace ebb
