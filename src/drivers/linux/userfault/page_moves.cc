// See page_moves.h.
#include "drivers/linux/userfault/page_moves.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

#include "drivers/linux/calls/own_mapping.h"
#include "drivers/linux/process/reservation.h"
#include "drivers/linux/userfault/patience.h"

namespace ebb {
namespace {

std::uintptr_t address_of(const std::byte* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

constexpr int kTakeTries = 64;         // another block can leave instead
constexpr int kBringTries = 500;       // 10 ms and more: then what does not move is copied
constexpr int kMemoryTries = 500'000;  // 10 s and more without memory for a page or a page table

}  // namespace

Status PageMoves::open(const Userfault& userfault, PageMoves& moves) {
  moves.userfault_ = &userfault;
  return ProcessMap::open(moves.map_);
}

// Pages that are missing count as moved; counted by what is still at `from`, which nobody but us can fill.
Userfault::Moved PageMoves::move(std::byte* to, std::byte* from, std::size_t bytes) const {
  auto moved = userfault_->move(to, from, bytes, Userfault::Holes::kAllowed);
  std::size_t run = 0;
  while (moved.error != 0 && moved.bytes < bytes &&
         !map_.present_run(address_of(from) + moved.bytes, bytes - moved.bytes, run)) {
    moved.bytes += run;
  }
  return moved;
}

// How many of these bytes lie in the mapping that the first of them is in; at least a page.
std::size_t PageMoves::end_of_mapping(const std::byte* address, std::size_t bytes) const {
  Mapping mapping;
  if (!map_.find(address_of(address), mapping)) return kPageBytes;
  return std::min<std::size_t>(bytes, mapping.end - address_of(address));
}

void PageMoves::drop(std::byte* address, std::size_t bytes) {
  if (own::madvise(address, bytes, MADV_DONTNEED) != 0) own::madvise(address, bytes, MADV_DONTNEED_LOCKED);
}

Status PageMoves::take(std::byte* home, std::byte* block, std::size_t bytes) const {
  if (userfault_->move(home, block, bytes, Userfault::Holes::kRefused).error == 0) return Status::kOk;
  Patience patience(kTakeTries);
  for (std::size_t at = 0; at < bytes;) {
    const auto moved = move(home + at, block + at, end_of_mapping(block + at, bytes - at));
    at += moved.bytes;
    if (moved.error == 0) continue;
    if (moved.bytes > 0) patience.renew();
    // Who locks all memory of the process (mlockall) fills homes too.
    if (moved.error == EEXIST) drop(home + at, bytes - at);
    const bool passing = moved.error == EAGAIN || moved.error == EEXIST || moved.bytes > 0;
    if (passing && patience.wait()) continue;
    return at == 0 || bring(block, home, at) == Status::kOk ? Status::kBusy : Status::kNoMemory;
  }
  fill(home, bytes);
  return Status::kOk;
}

Status PageMoves::bring(std::byte* block, std::byte* home, std::size_t bytes) const {
  if (userfault_->move(block, home, bytes, Userfault::Holes::kRefused).error == 0) return Status::kOk;
  Patience moving(kBringTries);
  Patience memory(kMemoryTries);
  bool left = false;  // something stays at home
  Status status = Status::kOk;
  for (std::size_t at = 0; at < bytes;) {
    const auto moved = move(block + at, home + at, end_of_mapping(block + at, bytes - at));
    at += moved.bytes;
    if (moved.bytes > 0) moving.renew();
    if (moved.error == 0 || moved.bytes > 0) continue;
    if ((moved.error == EAGAIN || moved.error == EBUSY) && moving.wait()) continue;
    // Locked or protected meanwhile, or somebody holds on to the page at home. Only what is there can be copied.
    left = true;
    std::size_t some = 0;
    if (!map_.present_run(address_of(home) + at, end_of_mapping(block + at, bytes - at), some)) continue;
    const auto copied = userfault_->copy(block + at, home + at, some);
    at += copied.bytes;
    if (copied.error == 0 || copied.bytes > 0) continue;
    if (copied.error == EAGAIN || copied.error == ENOMEM) {
      if (memory.wait()) continue;
      status = Status::kNoMemory;
      break;
    }
    // EEXIST: a page of somebody else's, or a guard; anything else: nothing of ours is mapped there.
    at += copied.error == EEXIST ? kPageBytes : some;
  }
  if (left) drop(home, bytes);
  userfault_->wake(block, bytes);
  return status;
}

void PageMoves::fill(std::byte* block, std::size_t bytes) const {
  Patience patience(kMemoryTries);
  for (std::size_t at = 0, run = 0; at < bytes; at += run) {
    if (map_.present_run(address_of(block) + at, bytes - at, run)) continue;
    run = std::min(run, end_of_mapping(block + at, bytes - at));
    const auto filled = userfault_->zero(block + at, run);
    if (filled.error == 0) continue;
    run = filled.bytes;
    const bool passing = filled.error == EAGAIN || filled.error == ENOMEM;
    if (!passing || !patience.wait()) run += kPageBytes;  // somebody else's by now
  }
  userfault_->wake(block, bytes);
}

bool PageMoves::poison_missing(std::byte* block, std::size_t bytes) const {
  Patience patience(kMemoryTries);
  for (std::size_t at = 0, run = 0; at < bytes; at += run) {
    if (map_.present_run(address_of(block) + at, bytes - at, run)) continue;
    run = std::min(run, end_of_mapping(block + at, bytes - at));
    const auto poisoned = userfault_->poison(block + at, run);
    if (poisoned.error == 0) continue;
    run = poisoned.bytes;
    if (run > 0 || (poisoned.error == EAGAIN && patience.wait())) continue;
    if (poisoned.error != EEXIST && poisoned.error != ENOENT) return false;
    run = kPageBytes;  // there by now, or of a mapping that is not ours any more
  }
  userfault_->wake(block, bytes);
  return true;
}

}  // namespace ebb
