// See uring_flash.h.
#include "drivers/uring/uring_flash.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "drivers/linux/system/system_files.h"

namespace ebb {
namespace {

constexpr std::chrono::milliseconds kRetryEvery{1};
constexpr std::uint64_t kPatienceNs = 100'000'000;

bool is_full(int error) { return error == ENOSPC || error == EDQUOT || error == EFBIG; }

// Rather than of the device: the transfer may be tried without the ring.
bool speaks_of_ring(int error) {
  return error == EINTR || error == EAGAIN || error == EBUSY || error == ENOMEM || error == ECANCELED;
}

}  // namespace

Status UringFlash::make(FlashFile& file, std::uint32_t depth, std::unique_ptr<UringFlash>& flash) {
  std::unique_ptr<UringFlash> made(new UringFlash(depth));
  // Every slot can have one completion, and the wake-up and what was withdrawn one more each.
  if (::io_uring_queue_init(depth + 2, &made->ring_, 0) != 0) return Status::kUnsupported;
  made->ring_open_ = true;
  ::io_uring_ring_dontfork(&made->ring_);
  made->wake_fd_ = ::eventfd(0, EFD_CLOEXEC);
  if (made->wake_fd_ < 0) return Status::kUnsupported;
  made->offer(kWakeTag);
  if (made->refused_since_ns_ != 0) return Status::kUnsupported;
  made->file_ = std::move(file);
  flash = std::move(made);
  return Status::kOk;
}

UringFlash::~UringFlash() {
  RawCompletion completion;
  while (in_flight_ > 0) {
    if (poll({&completion, 1}) == 0) wait(std::chrono::milliseconds(100));
  }
  if (ring_open_) ::io_uring_queue_exit(&ring_);
  if (wake_fd_ >= 0) ::close(wake_fd_);
}

void UringFlash::submit(const RawRequest& request) {
  std::size_t slot = 0;
  while (slot < slots_.size() && slots_[slot].busy) ++slot;
  EBB_CHECK_LT(slot, slots_.size());
  slots_[slot] = {request, 0, true};
  ++in_flight_;
  offer(slot);
}

void UringFlash::offer(std::uint64_t tag) {
  waiting_.push(tag);
  offer_waiting();
}

// Until the kernel has taken all or refuses one.
void UringFlash::offer_waiting() {
  for (;;) {
    if (offered_ != nullptr) {
      ::io_uring_submit(&ring_);  // whatever it says: the ring tells whether the entry was taken
      if (::io_uring_sq_ready(&ring_) > 0) {
        if (refused_since_ns_ == 0) refused_since_ns_ = monotonic_ns();
        return;
      }
      if (offered_->user_data != kNothingTag) waiting_.pop();
      offered_ = nullptr;
      refused_since_ns_ = 0;
    }
    if (waiting_.empty()) return;
    prepare(waiting_.front());
  }
}

// Puts the entry into the ring, for what is left of its request.
void UringFlash::prepare(std::uint64_t tag) {
  offered_ = ::io_uring_get_sqe(&ring_);
  EBB_CHECK(offered_ != nullptr);  // the ring is our own, and nothing else is in it
  if (tag == kWakeTag) {
    ::io_uring_prep_read(offered_, wake_fd_, &wake_count_, sizeof wake_count_, 0);
  } else {
    const Slot& slot = slots_[tag];
    const RawRequest& request = slot.request;
    std::byte* const data = request.bytes.data() + slot.done;
    const auto bytes = static_cast<unsigned>(request.bytes.size() - slot.done);
    if (request.write) {
      ::io_uring_prep_write(offered_, file_.fd(), data, bytes, request.offset + slot.done);
    } else {
      ::io_uring_prep_read(offered_, file_.fd_of(request), data, bytes, request.offset + slot.done);
    }
  }
  ::io_uring_sqe_set_data64(offered_, tag);
}

// Whether the entry ends its request.
bool UringFlash::finish(const io_uring_cqe& entry, RawCompletion& completion) {
  Slot& slot = slots_[entry.user_data];
  EBB_CHECK(slot.busy);
  Status status = Status::kOk;
  if (entry.res > 0) {
    slot.done += static_cast<std::size_t>(entry.res);
    if (slot.done < slot.request.least()) {
      offer(entry.user_data);
      return false;
    }
  } else if (speaks_of_ring(-entry.res)) {
    status = move_rest(slot);
  } else {
    status = is_full(-entry.res) ? Status::kNoSpace : Status::kIoError;
  }
  completion = end(entry.user_data, status);
  return true;
}

RawCompletion UringFlash::end(std::uint64_t index, Status status) {
  Slot& slot = slots_[index];
  slot.busy = false;
  --in_flight_;
  return {slot.request.token, status};
}

// Without the ring. The wake-up stays: without it wait() ends a little later.
std::size_t UringFlash::move_waiting(std::span<RawCompletion> completions) {
  std::size_t found = 0;
  for (std::size_t left = waiting_.size(); left > 0 && found < completions.size(); --left) {
    const std::uint64_t tag = waiting_.pop();
    if (tag == kWakeTag) {
      waiting_.push(tag);
      continue;
    }
    completions[found++] = end(tag, move_rest(slots_[tag]));
  }
  return found;
}

std::size_t UringFlash::poll(std::span<RawCompletion> completions) {
  offer_waiting();
  std::size_t found = 0;
  io_uring_cqe* entry = nullptr;
  while (found < completions.size() && ::io_uring_peek_cqe(&ring_, &entry) == 0) {
    const io_uring_cqe copy = *entry;
    ::io_uring_cqe_seen(&ring_, entry);
    if (copy.user_data == kWakeTag) {
      woken_ = true;
      offer(kWakeTag);
    } else if (copy.user_data != kNothingTag && finish(copy, completions[found])) {
      ++found;
    }
  }
  if (refused_since_ns_ == 0 || monotonic_ns() - refused_since_ns_ < kPatienceNs) return found;
  // What lies in the ring is about a request that is going to be over.
  ::io_uring_prep_nop(offered_);
  ::io_uring_sqe_set_data64(offered_, kNothingTag);
  return found + move_waiting(completions.subspan(found));
}

void UringFlash::wait(std::chrono::nanoseconds timeout) {
  // A poll() may have seen the wake-up first.
  if (std::exchange(woken_, false)) return;
  offer_waiting();
  if (waiting_.empty()) {
    __kernel_timespec limit{timeout.count() / 1'000'000'000, timeout.count() % 1'000'000'000};
    io_uring_cqe* entry = nullptr;
    const int result = ::io_uring_wait_cqe_timeout(&ring_, &entry, &limit);
    if (result == 0 || result == -ETIME || result == -EINTR) return;
  }
  // The ring takes nothing, or cannot be waited for: what is in flight completes without its help.
  std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(timeout, kRetryEvery));
}

void UringFlash::wake() { ring(wake_fd_); }

}  // namespace ebb
