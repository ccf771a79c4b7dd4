// See fork_board.h.
#include "runtime/fork/fork_board.h"

#include <linux/futex.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>

#include "base/check.h"

namespace ebb {
namespace {

constexpr long kLookEveryNs = 20'000'000;  // whether the parent is still there

bool has_reader(int pipe) {
  pollfd polled{pipe, 0, 0};
  return ::poll(&polled, 1, 0) <= 0 || (polled.revents & (POLLERR | POLLNVAL)) == 0;
}

}  // namespace

std::unique_ptr<ForkBoard> ForkBoard::make(std::uint32_t frames) {
  constexpr int kFlags = MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE;
  void* const mapped = ::mmap(nullptr, frames * sizeof(Entry), PROT_READ | PROT_WRITE, kFlags, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  return std::unique_ptr<ForkBoard>(new ForkBoard(static_cast<Entry*>(mapped), frames));
}

ForkBoard::~ForkBoard() { ::munmap(entries_, frames_ * sizeof(Entry)); }

void ForkBoard::owe(FrameIndex frame) {
  EBB_CHECK_LT(frame.value(), frames_);
  entries_[frame.value()].state.store(kOwed, std::memory_order_relaxed);  // before there is a child
  ++owed_;
}

bool ForkBoard::owes(FrameIndex frame) const {
  return entries_[frame.value()].state.load(std::memory_order_relaxed) == kOwed;
}

void ForkBoard::write(FrameIndex frame, ExtentIndex extent, const Digest& digest) {
  Entry& entry = entries_[frame.value()];
  entry.extent = extent.value();
  entry.digest = digest;
  settle(frame, kWritten);
}

void ForkBoard::lose(FrameIndex frame) { settle(frame, kLost); }

void ForkBoard::settle(FrameIndex frame, State state) {
  EBB_CHECK(owes(frame));
  --owed_;
  Entry& entry = entries_[frame.value()];
  entry.state.store(state, std::memory_order_release);
  ::syscall(SYS_futex, &entry.state, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

Status ForkBoard::read(FrameIndex frame, int pipe, ExtentIndex& extent, Digest& digest) const {
  const Entry& entry = entries_[frame.value()];
  for (bool parent = true;; parent = has_reader(pipe)) {
    const std::uint32_t state = entry.state.load(std::memory_order_acquire);
    if (state == kWritten) {
      extent = ExtentIndex(entry.extent);
      digest = entry.digest;
      return Status::kOk;
    }
    if (state != kOwed || !parent) return Status::kIoError;
    const timespec limit{0, kLookEveryNs};
    ::syscall(SYS_futex, &entry.state, FUTEX_WAIT, kOwed, &limit, nullptr, 0);
  }
}

}  // namespace ebb
