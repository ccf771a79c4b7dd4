// AdoptedMemory: moving blocks. What owners do to them: adopted_changes.cc.
#include "drivers/linux/adopt/adopted_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "base/check.h"
#include "base/clock.h"
#include "drivers/linux/calls/own_mapping.h"
#include "drivers/linux/system/machine_memory.h"
#include "drivers/linux/userfault/page_moves.h"

namespace ebb {
namespace {

std::string refusal(const Mapping& mapping, std::uintptr_t stack) {
  if (mapping.kind == Mapping::Kind::kSpecial) return "it is the kernel's or a driver's";
  if (mapping.kind == Mapping::Kind::kFile) return "it maps a file: read the file into ordinary memory first";
  if (mapping.shared) return "it is shared with other processes: adopt private memory only";
  if (mapping.page_bytes != 4096) return "it has hugetlb pages, which do not move: use transparent huge pages";
  if (!mapping.readable || !mapping.writable) return "it cannot be read and written (mprotect)";
  if (std::strncmp(mapping.name, "[stack", 6) == 0 || (stack >= mapping.begin && stack < mapping.end)) {
    return "it is a stack in use";
  }
  return "";
}

}  // namespace

Status AdoptedMemory::make(std::size_t block_bytes, const Userfault& home, std::unique_ptr<AdoptedMemory>& memory) {
  std::unique_ptr<AdoptedMemory> made(new AdoptedMemory(block_bytes, home));
  const Userfault::Wanted wanted{.user_mode_only = home.rung() == Userfault::Rung::kUserModeOnly, .events = true};
  if (Userfault::open(wanted, made->userfault_) != 0 || !made->userfault_.can_move()) return Status::kUnsupported;
  made->stash_fd_ = open_bell();
  if (!made->stash_fd_.valid()) return Status::kNoMemory;
  if (const Status status = ProcessMap::open(made->map_); status != Status::kOk) return status;
  if (const Status status = Gate::make(made->userfault_, made->gate_); status != Status::kOk) return status;
  memory = std::move(made);
  return Status::kOk;
}

Status AdoptedMemory::judge(std::span<const std::byte> memory, std::string& reason) const {
  const auto begin = reinterpret_cast<std::uintptr_t>(memory.data());
  const auto stack = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  bool overlaps = gate_.overlaps(begin, begin + memory.size());
  {
    const Lock lock(mutex_);
    const_cast<AdoptedBlocks&>(blocks_).visit(begin, begin + memory.size(),
                                              [&](BlockIndex block, std::size_t first, std::size_t last) {
                                                for (std::size_t page = first; page < last; ++page)
                                                  overlaps = overlaps || !blocks_.gone(block, page);
                                              });
  }
  if (overlaps) reason = "some of it is adopted already: release that first";
  for (std::uintptr_t at = begin; reason.empty() && at < begin + memory.size();) {
    Mapping mapping;
    if (!map_.find(at, mapping)) {
      reason = "some of it is not mapped";
      break;
    }
    reason = refusal(mapping, stack);
    at = mapping.end;
    if (!reason.empty()) reason += " (" + map_.describe(mapping.begin) + ")";
  }
  return reason.empty() ? Status::kOk : Status::kInvalid;
}

void AdoptedMemory::add(BlockRange range, std::byte* address) {
  const bool waits = home_.rung() == Userfault::Rung::kFull;
  calls_.emplace_back(range.first, CompletedCalls(address, range.count * block_bytes_, !waits, false));
  auto span = std::make_unique<AdoptedBlocks::Span>(range, reinterpret_cast<std::uintptr_t>(address), block_bytes_);
  AdoptedBlocks::Spans next;
  next.reserve(blocks_.size() + 1);
  Lock lock(mutex_);
  AdoptedBlocks::Spans none;
  blocks_.swap(none);  // moved from one vector, which has the room, to the other
  for (auto& other : none) {
    if (span != nullptr && range.first.value() < other->range.first.value()) next.push_back(std::move(span));
    next.push_back(std::move(other));
  }
  if (span != nullptr) next.push_back(std::move(span));
  blocks_.swap(next);
  lock.unlock();  // the old vectors are freed without it
}

void AdoptedMemory::remove(BlockRange range) {
  std::erase_if(calls_, [&](const auto& span) { return span.first == range.first; });
  std::unique_ptr<AdoptedBlocks::Span> removed;
  AdoptedBlocks::Spans spans;
  Lock lock(mutex_);
  blocks_.swap(spans);
  for (auto& span : spans) {
    if (span->range.first == range.first) removed = std::move(span);
  }
  spans.erase(std::remove(spans.begin(), spans.end(), nullptr), spans.end());
  blocks_.swap(spans);
  lock.unlock();
}

Status AdoptedMemory::populate(BlockIndex block) {
  std::uintptr_t address = 0;
  {
    const Lock lock(mutex_);
    address = blocks_.find(block)->address;
  }
  for (int tries = 0; own::madvise(pointer(address), block_bytes_, MADV_POPULATE_WRITE) != 0; ++tries) {
    if (errno != EAGAIN && errno != EINTR)
      return errno == ENOMEM || errno == EFAULT ? Status::kInvalid : Status::kNoMemory;
    if (tries >= kTriesMax) return Status::kNoMemory;
  }
  return Status::kOk;
}

// Lets the thread whose event was unread proceed; its event is read here, whoever we are.
void AdoptedMemory::give_way(Lock& lock, Patience& patience) {
  lock.unlock();
  EBB_CHECK(patience.wait());
  lock.lock();
  read_messages();
}

Status AdoptedMemory::join(BlockIndex index) {
  Lock lock(mutex_);
  read_messages();
  // An event of a mapping that was here before this one must not be taken for one of this.
  for (Patience patience(kTriesMax); !userfault_.quiet();) give_way(lock, patience);
  AdoptedBlock& block = *blocks_.find(index);
  // A child gets memory of its own at these addresses (enter_child), not a copy with holes.
  if (own::madvise(pointer(block.address), block_bytes_, MADV_DONTFORK) != 0) return Status::kInvalid;
  if (const int error = userfault_.watch(pointer(block.address), block_bytes_); error != 0) {
    own::madvise(pointer(block.address), block_bytes_, MADV_DOFORK);
    return error == EBUSY ? Status::kBusy : Status::kInvalid;
  }
  block.joined = block.present = true;
  if (try_moving(lock, index)) return Status::kOk;
  userfault_.unwatch(pointer(block.address), block_bytes_);
  own::madvise(pointer(block.address), block_bytes_, MADV_DOFORK);
  block.joined = block.present = false;
  return Status::kInvalid;
}

// Whether the kernel moves memory of this mapping; a huge page is not split for it.
bool AdoptedMemory::try_moving(Lock& lock, BlockIndex index) {
  const AdoptedBlock& block = *blocks_.find(index);
  const bool huge = block_bytes_ >= kHugePageBytes && (map_.page(block.address) & ProcessMap::kHuge) != 0;
  const std::size_t bytes = huge ? kHugePageBytes : kPageBytes;
  in_transit_ = index;
  bool moves = true;
  for (Patience patience(kTriesMax); !is_gone(block); give_way(lock, patience)) {
    const auto moved = gate_.pull(map_, pointer(block.address), bytes);
    if (moved.bytes > 0) push(lock, index, gate_.data(), moved.bytes);
    moves = moved.error == 0 || moved.bytes > 0 || moved.error == EBUSY;  // pinned just now
    if (moved.error != EAGAIN || moves) break;
  }
  in_transit_ = BlockIndex::none();
  return moves || is_gone(block);
}

void AdoptedMemory::leave(BlockIndex index) {
  Lock lock(mutex_);
  read_messages();
  AdoptedBlock& block = *blocks_.find(index);
  for (std::size_t at = 0, end = 0; at < block_bytes_ && block.joined; at = end) {
    bool there = false;
    end = run(index, at, block_bytes_, there);
    if (!there) continue;
    userfault_.unwatch(pointer(block.address + at), end - at);
    own::madvise(pointer(block.address + at), end - at, MADV_DOFORK);
  }
  note_served(block);
  block.joined = block.present = false;
}

bool AdoptedMemory::gone(BlockIndex index) const {
  const Lock lock(mutex_);
  const AdoptedBlock* const block = blocks_.find(index);
  return block != nullptr && is_gone(*block);
}

std::uint64_t AdoptedMemory::free_bytes() const { return read_machine_memory().usable_bytes(); }

// The end of the pages, from the one at `at`, that are all there, or all gone.
std::size_t AdoptedMemory::run(BlockIndex index, std::size_t at, std::size_t end, bool& there) const {
  if (blocks_.find(index)->gone_pages == 0) {
    there = true;
    return end;
  }
  there = !blocks_.gone(index, at / kPageBytes);
  std::size_t stop = at;
  while (stop < end && blocks_.gone(index, stop / kPageBytes) != there) stop += kPageBytes;
  return std::min(stop, end);
}

void AdoptedMemory::attach(std::byte* home, BlockIndex index) {
  Lock lock(mutex_);
  read_messages();
  AdoptedBlock& block = *blocks_.find(index);
  if (!block.joined || is_gone(block)) return;
  if (block.failed) {
    protect(index, PROT_READ | PROT_WRITE);
    block.failed = false;
  }
  push(lock, index, home, block_bytes_);
  block.present = true;
  note_served(block);
  userfault_.wake(pointer(block.address), block_bytes_);
}

// Pages that their owner discarded while they were away are zeros now.
void AdoptedMemory::clear_empty_pages(BlockIndex index, const std::byte* from, std::size_t begin, std::size_t end) {
  if (blocks_.find(index)->empty_pages == 0) return;
  for (std::size_t at = begin; at < end; at += kPageBytes) {
    std::byte* const page = const_cast<std::byte*>(from) + at;
    const bool there =
        (map_.page(reinterpret_cast<std::uintptr_t>(page)) & (ProcessMap::kPresent | ProcessMap::kSwapped)) != 0;
    if (there && blocks_.empty(index, at / kPageBytes)) std::memset(page, 0, kPageBytes);
  }
}

// Moves the first `bytes` of a block to its address, from where they wait; what is left there is of no use.
void AdoptedMemory::push(Lock& lock, BlockIndex index, const std::byte* from, std::size_t bytes) {
  in_transit_ = index;
  clear_empty_pages(index, from, 0, bytes);
  bool left = false;
  Patience patience(kTriesMax);
  for (std::size_t at = 0; at < bytes;) {
    bool there = false;
    const std::size_t end = run(index, at, bytes, there);
    if (!there) {
      left = true;
      at = end;
      continue;
    }
    const auto address = [&] { return pointer(blocks_.find(index)->address + at); };
    const auto moved = move_to_empty(userfault_, map_, address(), from + at, end - at);
    at += moved.bytes;
    if (moved.error == 0) continue;
    EBB_CHECK(moved.error != EEXIST || moved.bytes > 0);  // nobody but us fills what is absent there
    if (moved.error != EAGAIN && moved.error != EBUSY && moved.error != EEXIST) {
      // Read-only or locked meanwhile: it can be filled, if not by moving. Gone without an event it cannot be.
      left = true;
      const auto copied = userfault_.copy(address(), from + at, end - at);
      at += copied.bytes + (copied.error == EEXIST ? kPageBytes : 0);
      if (copied.error == 0 || copied.error == EEXIST) continue;
      if (copied.error == ENOENT && userfault_.quiet()) {
        blocks_.set_gone(index, at / kPageBytes, end / kPageBytes);
        changed_ = true;
        continue;
      }
    }
    give_way(lock, patience);  // an event is unread, or direct I/O has not let go of the pages yet
    clear_empty_pages(index, from, at, bytes);
  }
  // What else was discarded meanwhile had arrived: who discards it does so himself.
  blocks_.set_empty(index, 0, block_bytes_ / kPageBytes, false);
  in_transit_ = BlockIndex::none();
  if (!left) return;
  if (from == gate_.data()) {
    gate_.clear();
  } else {
    own::madvise(const_cast<std::byte*>(from), bytes, MADV_DONTNEED);
  }
}

Status AdoptedMemory::detach(BlockIndex index, std::byte* home) {
  Lock lock(mutex_);
  read_messages();
  AdoptedBlock& block = *blocks_.find(index);
  if (!block.joined || is_gone(block)) return Status::kBusy;
  if (block.stays_until_ns > 0) {
    if (monotonic_ns() < block.stays_until_ns) return Status::kBusy;
    block.stays_until_ns = 0;
  }
  if (const Status status = pull(lock, index, home); status != Status::kOk) return status;
  block.present = false;
  make_whole(home);
  return Status::kOk;
}

// A page that its owner has discarded, and nobody touched since, is missing: frames are whole.
void AdoptedMemory::make_whole(std::byte* home) {
  std::size_t whole = 0;
  if (map_.present_run(reinterpret_cast<std::uintptr_t>(home), block_bytes_, whole) && whole == block_bytes_) return;
  Patience patience(kTriesMax);
  for (std::size_t at = 0; at < block_bytes_;) {
    const auto filled = home_.zero(home + at, block_bytes_ - at);
    at += filled.bytes + (filled.error == EEXIST ? kPageBytes : 0);
    if (filled.error != 0 && filled.error != EEXIST) EBB_CHECK(patience.wait());
  }
}

// Takes a block home through the gate. kBusy: all of it is where it was.
Status AdoptedMemory::pull(Lock& lock, BlockIndex index, std::byte* home) {
  in_transit_ = index;
  Patience patience(kTriesMax);
  for (std::size_t at = 0; at < block_bytes_;) {
    bool there = false;
    const std::size_t end =
        std::min(run(index, at, block_bytes_, there), at / kHugePageBytes * kHugePageBytes + kHugePageBytes);
    if (!there) {
      at = end;
      continue;
    }
    const auto moved = gate_.pull(map_, pointer(blocks_.find(index)->address + at), end - at);
    if (moved.bytes > 0) take_home(home + at, moved.bytes);
    at += moved.bytes;
    if (moved.error == 0) continue;
    if (moved.error == EAGAIN) {
      give_way(lock, patience);
      const AdoptedBlock& block = *blocks_.find(index);
      if (!is_gone(block) && block.stays_until_ns == 0) continue;
    }
    push(lock, index, home, at);
    userfault_.wake(pointer(blocks_.find(index)->address), block_bytes_);
    return Status::kBusy;
  }
  in_transit_ = BlockIndex::none();
  return Status::kOk;
}

// From the gate into a frame. What is there already are zeros: who populates all memory of the process (mlockall) fills
// homes, too. Pages go in order, so what is still in the gate tells how many have gone.
void AdoptedMemory::take_home(std::byte* home, std::size_t bytes) {
  Patience patience(kTriesMax);
  bool left = false;
  for (std::size_t at = 0; at < bytes;) {
    const auto moved = home_.move(home + at, gate_.data() + at, bytes - at);
    if (moved.error == 0) break;
    at += moved.bytes;
    std::size_t run = 0;
    while (at < bytes && !map_.present_run(reinterpret_cast<std::uintptr_t>(gate_.data()) + at, bytes - at, run))
      at += run;
    if (at == bytes) break;
    if (moved.error == EEXIST) PageMoves::drop(home + at, bytes - at);
    if (moved.error != EAGAIN && moved.error != EBUSY && moved.error != EEXIST) {
      left = true;  // nothing moves where one side is locked
      const auto copied = home_.copy(home + at, gate_.data() + at, run);
      at += copied.bytes;
      if (copied.error == EEXIST) PageMoves::drop(home + at, bytes - at);
    }
    EBB_CHECK(patience.wait());
  }
  if (left) gate_.clear();
}

// Somebody touches a page of a block that is here: the page is missing because its owner has discarded it.
void AdoptedMemory::wake(BlockIndex index) {
  Lock lock(mutex_);
  read_messages();
  const AdoptedBlock& block = *blocks_.find(index);
  if (!block.joined) return;
  Patience patience(kTriesMax);
  for (std::size_t i = 0; i < fault_count_; ++i) {
    if (faults_[i] - block.address >= block_bytes_ || !block.present) continue;
    while (userfault_.zero(pointer(faults_[i]), kPageBytes).error == EAGAIN) {
      const std::uintptr_t page = faults_[i];
      give_way(lock, patience);
      if (i >= fault_count_ || faults_[i] != page) break;
    }
  }
  note_served(block);
  userfault_.wake(pointer(block.address), block_bytes_);
}

// Its touches are answered, or will be repeated.
void AdoptedMemory::note_served(const AdoptedBlock& block) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < fault_count_; ++i) {
    if (faults_[i] - block.address >= block_bytes_) faults_[kept++] = faults_[i];
  }
  fault_count_ = kept;
}

// Of what is there of a block: at what its owner has unmapped the kernel would stop.
void AdoptedMemory::protect(BlockIndex index, int protection) {
  for (std::size_t at = 0, end = 0; at < block_bytes_; at = end) {
    bool there = false;
    end = run(index, at, block_bytes_, there);
    std::byte* const data = pointer(blocks_.find(index)->address + at);
    if (!there || own::mprotect(data, end - at, protection) == 0 || protection != PROT_NONE) continue;
    // As many mappings as there can be. A touch of what is neither closed nor marked would be repeated without end.
    static_cast<void>(touched_->poison_all(data, end - at));
  }
}

// Without access, because a mark of poison could be taken away again only by a call that waits for its own event.
void AdoptedMemory::fail(BlockIndex index) {
  Lock lock(mutex_);
  AdoptedBlock& block = *blocks_.find(index);
  if (!block.joined || is_gone(block)) return;
  protect(index, PROT_NONE);
  block.failed = true;
  note_served(block);
  touched_->wake(pointer(block.address), block_bytes_);
}

void AdoptedMemory::forget_failure(BlockIndex index) {
  Lock lock(mutex_);
  AdoptedBlock& block = *blocks_.find(index);
  if (!block.joined || !block.failed || is_gone(block)) return;
  protect(index, PROT_READ | PROT_WRITE);
  block.failed = false;
}

}  // namespace ebb
