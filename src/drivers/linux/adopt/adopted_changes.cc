// AdoptedMemory: what the kernel tells: touches of absent pages, and what owners have done to their memory; and forks.
// Nothing here allocates or waits.
#include <linux/userfaultfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/check.h"
#include "base/clock.h"
#include "drivers/linux/adopt/adopted_memory.h"
#include "drivers/linux/calls/own_mapping.h"

namespace ebb {
namespace {

// From the reading of its event until madvise() discards: microseconds, unless its thread is kept from running.
constexpr std::uint64_t kDiscardNs = 1'000'000'000;

}  // namespace

void AdoptedMemory::apply_changes() {
  const Lock lock(mutex_);
  read_messages();
}

// Lock held before the first event is read: whoever caused it may go on from then.
void AdoptedMemory::read_messages() {
  uffd_msg message;
  while (userfault_.read(message)) {
    switch (message.event) {
      case UFFD_EVENT_PAGEFAULT: touched(message.arg.pagefault.address); break;
      case UFFD_EVENT_UNMAP: unmapped(message.arg.remove.start, message.arg.remove.end); break;
      case UFFD_EVENT_REMOVE: discarded(message.arg.remove.start, message.arg.remove.end); break;
      case UFFD_EVENT_REMAP: moved(message.arg.remap.from, message.arg.remap.to, message.arg.remap.len); break;
      default: break;
    }
  }
}

// Kept until the block has been served; with no room for it the touch is repeated, and told again.
void AdoptedMemory::touched(std::uintptr_t address) {
  const std::uintptr_t page = address / kPageBytes * kPageBytes;
  const BlockIndex block = blocks_.at(page);
  if (!block.valid()) {
    // Mapped by what an owner did to adopted memory, and nobody's: new memory, or what cannot be had. Or the gate, when
    // somebody populates all memory of the process.
    if (gate_.overlaps(page, page + kPageBytes)) gate_.note_touched();
    const bool stray = is_stray(page);
    if (stray) own::mprotect(pointer(page), kPageBytes, PROT_NONE);
    if (stray || userfault_.zero(pointer(page), kPageBytes).error != 0) {
      userfault_.wake(pointer(page), kPageBytes);
    }
    return;
  }
  const auto faults = std::span(faults_).first(fault_count_);
  const bool known = std::find(faults.begin(), faults.end(), page) != faults.end();
  const auto stash = std::span(stash_).first(stash_count_);
  const bool stashed = std::find(stash.begin(), stash.end(), block) != stash.end();
  if ((!known && fault_count_ == kFaultsMax) || (!stashed && stash_count_ == kFaultsMax)) {
    userfault_.wake(pointer(page), kPageBytes);
    return;
  }
  if (!known) faults_[fault_count_++] = page;
  if (stashed) return;
  stash_[stash_count_++] = block;
  ring(stash_fd_.get());
}

std::size_t AdoptedMemory::take_faults(std::span<BlockIndex> blocks) {
  const Lock lock(mutex_);
  read_messages();
  const std::size_t taken = std::min(blocks.size(), stash_count_);
  std::copy_n(stash_.begin(), taken, blocks.begin());
  std::copy(stash_.begin() + taken, stash_.begin() + stash_count_, stash_.begin());
  stash_count_ -= taken;
  silence(stash_fd_.get());
  if (stash_count_ > 0) ring(stash_fd_.get());
  return taken;
}

void AdoptedMemory::unmapped(std::uintptr_t begin, std::uintptr_t end) {
  blocks_.visit(begin, end, [&](BlockIndex block, std::size_t first, std::size_t last) {
    blocks_.set_gone(block, first, last);
    changed_ = true;
  });
  for (std::size_t i = 0; i < stray_count_;) {
    const bool gone = strays_[i].begin >= begin && strays_[i].end <= end;
    if (gone) strays_[i] = strays_[--stray_count_];
    i += gone ? 0 : 1;
  }
}

// Pages that are here go when the caller goes on; what is away is forgotten now.
void AdoptedMemory::discarded(std::uintptr_t begin, std::uintptr_t end) {
  blocks_.visit(begin, end, [&](BlockIndex index, std::size_t first, std::size_t last) {
    AdoptedBlock& block = *blocks_.find(index);
    block.stays_until_ns = monotonic_ns() + kDiscardNs;
    if (!block.present || in_transit_ == index) blocks_.set_empty(index, first, last, true);
  });
}

void AdoptedMemory::moved(std::uintptr_t from, std::uintptr_t to, std::size_t bytes) {
  strays_moved(from, to, bytes);
  blocks_.visit(from, from + bytes, [&](BlockIndex index, std::size_t first, std::size_t last) {
    const AdoptedBlock& block = *blocks_.find(index);
    if (first == 0 && last == block_bytes_ / kPageBytes) {
      blocks_.rebase(index, block.address - from + to);
      return;
    }
    // A block lies in one place. What was here of the part that left has gone with it, what was away is lost there: of
    // a block on its way, some is here and some is away.
    if (!block.present || in_transit_ == index) {
      const std::uintptr_t begin = block.address + first * kPageBytes - from + to;
      add_stray({begin, begin + (last - first) * kPageBytes});
      write_all(
          STDERR_FILENO,
          "ebb: mremap has torn a block of adopted memory apart: what was on flash of the part that moved is lost, "
          "and a touch of it fails with SIGSEGV. Release memory before a part of it is moved.\n");
    }
    blocks_.set_gone(index, first, last);
    changed_ = true;
  });
}

void AdoptedMemory::add_stray(const Range& stray) {
  if (stray_count_ < kStraysMax) {
    strays_[stray_count_++] = stray;
  } else {
    ::mprotect(pointer(stray.begin), stray.end - stray.begin, PROT_NONE);  // what is here of it fails, too
  }
}

void AdoptedMemory::strays_moved(std::uintptr_t from, std::uintptr_t to, std::size_t bytes) {
  for (std::size_t i = 0, count = stray_count_; i < count; ++i) {
    const Range part{std::max(strays_[i].begin, from), std::min(strays_[i].end, from + bytes)};
    if (part.begin >= part.end) continue;
    const Range there{part.begin - from + to, part.end - from + to};
    if (part.begin == strays_[i].begin && part.end == strays_[i].end) {
      strays_[i] = there;
    } else {
      add_stray(there);
    }
  }
}

bool AdoptedMemory::is_stray(std::uintptr_t address) const {
  const auto strays = std::span(strays_).first(stray_count_);
  return std::any_of(strays.begin(), strays.end(),
                     [&](const Range& stray) { return address >= stray.begin && address < stray.end; });
}

void AdoptedMemory::inherit(BlockIndex index, bool inherited) {
  const Lock lock(mutex_);
  AdoptedBlock& block = *blocks_.find(index);
  if (!block.joined) return;
  block.inherited = inherited;
  for (std::size_t at = 0, end = 0; at < block_bytes_; at = end) {
    bool there = false;
    end = run(index, at, block_bytes_, there);
    if (there) own::madvise(pointer(block.address + at), end - at, inherited ? MADV_DOFORK : MADV_DONTFORK);
  }
}

// Nobody is in the middle of changing a mapping: the table says what the child is to have where.
void AdoptedMemory::before_fork() {
  Lock lock(mutex_);
  read_messages();
  for (Patience patience(kTriesMax); !userfault_.quiet();) give_way(lock, patience);
  static_cast<void>(lock.release());  // until after the fork
}

Status AdoptedMemory::enter_child(Userfault& faults) {
  const bool first = userfault_.fd() >= 0;  // not a child's child
  // The parent's descriptor and gate are the parent's.
  gate_.forget();
  userfault_.close();
  touched_ = &faults;
  stash_fd_.reset();
  fault_count_ = stash_count_ = 0;
  for (const auto& span : blocks_.spans()) {
    for (std::uint32_t i = 0; i < span->range.count; ++i) {
      const BlockIndex index(span->range.first.value() + i);
      AdoptedBlock& block = *blocks_.find(index);
      if (!block.joined || is_gone(block)) continue;
      for (std::size_t at = 0, end = 0; at < block_bytes_; at = end) {
        bool there = false;
        end = run(index, at, block_bytes_, there);
        if (!there) continue;
        std::byte* const address = pointer(block.address + at);
        void* const mapped = own::mmap(address, end - at, PROT_NONE,
                                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
        const bool taken = mapped == MAP_FAILED && errno == EEXIST;
        if (taken && first && !block.inherited) {
          // Its owner has moved it away in the last moment, and others have mapped something here.
          blocks_.set_gone(index, at / kPageBytes, end / kPageBytes);
          continue;
        }
        // In a child's child, or where it stayed, it is there already, with what it holds. Nobody touches it unwatched.
        if (mapped == MAP_FAILED && (!taken || own::mprotect(address, end - at, PROT_NONE) != 0)) {
          return Status::kNoMemory;
        }
        if (faults.watch(address, end - at) != 0) return Status::kUnsupported;
        if (own::mprotect(address, end - at, PROT_READ | PROT_WRITE) != 0) return Status::kNoMemory;
      }
      block.failed = false;
    }
  }
  return Status::kOk;
}

// In a child, whose own thread unmaps without an event: pages that are not there any more are passed over.
bool AdoptedMemory::place(Userfault& faults, BlockIndex index, std::span<const std::byte> content) {
  const AdoptedBlock& block = *blocks_.find(index);
  Status status = Status::kOk;
  for (std::size_t page = 0; page < block_bytes_ / kPageBytes; ++page) {
    if (blocks_.gone(index, page)) continue;
    std::byte* const to = pointer(block.address + page * kPageBytes);
    const bool zeros = content.empty() || blocks_.empty(index, page);
    const Status done =
        zeros ? faults.zero_all(to, kPageBytes) : faults.copy_all(to, &content[page * kPageBytes], kPageBytes);
    if (done != Status::kOk) status = done;
  }
  faults.wake(pointer(block.address), block_bytes_);
  return status == Status::kOk;
}

}  // namespace ebb
