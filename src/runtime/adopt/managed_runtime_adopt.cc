// ManagedRuntime: memory of the program's own that comes under the budget where it is, and leaves it again. Block by
// block, so that at no time more is in memory than there was: a block that comes makes another one leave.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "base/check.h"
#include "base/clock.h"
#include "runtime/managed_runtime.h"

namespace ebb {
namespace {

constexpr std::chrono::milliseconds kTurn{10};
constexpr int kIdleTurnsMax = 500;                     // in which nothing moves: 5 s
constexpr std::uint64_t kBlockMaxNs = 60'000'000'000;  // for one block, whatever moves
constexpr std::uint32_t kHomeAhead = 8;                // blocks on their way home at once

std::string span_text(std::span<const std::byte> memory) {
  char text[64];
  std::snprintf(text, sizeof text, "%p + ", static_cast<const void*>(memory.data()));
  return text + format_size(memory.size());
}

bool overlap(std::span<const std::byte> one, const std::byte* data, std::uint64_t bytes) {
  return one.data() < data + bytes && data < one.data() + one.size();
}

}  // namespace

// The adoption of this runtime. Lock held.
Adoption& ManagedRuntime::adoption() {
  std::string reason;
  if (adoption_ == nullptr) adoption_ = memory_->adoption(reason);
  if (adoption_ == nullptr) {
    throw Error(Status::kUnsupported, "memory cannot be adopted here: " + reason +
                                          ". It takes userfaultfd with UFFDIO_MOVE (Linux 6.8 or later): `ebb doctor` "
                                          "says what is missing.");
  }
  return *adoption_;
}

std::span<std::byte> ManagedRuntime::adopt(std::span<std::byte> memory) {
  if (child_)
    throw Error(Status::kUnsupported, "a forked process cannot adopt memory: open a runtime of its own there");
  const std::uint64_t unit = core_.block_bytes();
  const auto begin = (reinterpret_cast<std::uintptr_t>(memory.data()) + unit - 1) / unit * unit;
  const auto end = (reinterpret_cast<std::uintptr_t>(memory.data()) + memory.size()) / unit * unit;
  if (end <= begin) return {};
  const std::span<std::byte> whole(reinterpret_cast<std::byte*>(begin), end - begin);
  enter_job();
  {
    Lock lock(mutex_);
    ask_for_flash(lock, whole.size());
  }
  const std::lock_guard adopting(adopting_);
  Adopted* const adopted = reserve_for(memory, whole);
  try {
    adopt_blocks(*adopted);
  } catch (...) {
    release_blocks(*adopted);
    forget_adopted(*adopted);
    throw;
  }
  adopted->busy = false;
  return whole;
}

ManagedRuntime::Adopted* ManagedRuntime::reserve_for(std::span<std::byte> given, std::span<std::byte> memory) {
  Lock lock(mutex_);
  if (overlap(memory, base_, space_bytes_)) {
    throw Error(Status::kInvalid, "cannot adopt " + span_text(memory) + ": this runtime manages it already");
  }
  Adoption& adoption = this->adoption();
  std::string reason;
  lock.unlock();
  if (adoption.judge(memory, reason) != Status::kOk) {
    throw Error(Status::kInvalid, "cannot adopt " + span_text(memory) + ": " + reason);
  }
  auto made = std::make_unique<Adopted>();
  made->given = given;
  made->data = memory.data();
  lock.lock();
  tell_core();
  const auto count = static_cast<std::uint32_t>(memory.size() / core_.block_bytes());
  const Status status =
      take_addresses(lock, [&] { return core_.adopted().reserve(count, made->blocks, made->offset); });
  if (status != Status::kOk) {
    lock.unlock();
    out_of_memory(memory.size());
  }
  adoption.add(made->blocks, memory.data());
  const std::lock_guard list(adopted_mutex_);
  adopted_.push_back(std::move(made));
  adopted_count_ = adopted_.size();
  return adopted_.back().get();
}

void ManagedRuntime::adopt_blocks(const Adopted& adopted) {
  for (BlockIndex i = adopted.blocks.first; i != adopted.blocks.end(); i = i.next()) {
    const Status status = adoption_->populate(i);
    if (status == Status::kInvalid) throw Error(status, "memory was unmapped while it was being adopted");
    if (status != Status::kOk) {
      throw Error(status, "memory cannot be adopted: the system has none for its untouched pages; free some first");
    }
    adopt_block(i);
  }
}

void ManagedRuntime::adopt_block(BlockIndex block) {
  Lock lock(mutex_);
  const std::uint64_t begin_ns = monotonic_ns();
  for (int idle = 0; !core_.adopted().adopt(block);) {
    pump();
    after_change();
    const bool moves = core_.engine().in_flight() > 0 || core_.budget().extents_wanted() > 0;
    idle = moves ? 0 : idle + 1;
    if (idle > kIdleTurnsMax || monotonic_ns() - begin_ns > kBlockMaxNs) {
      throw Error(Status::kNoMemory,
                  "memory cannot be adopted: nothing can leave the budget to make room for it, because flash in '" +
                      flash_directory_ +
                      "' is full or failing, or launches use all of it. Give it more flash (--flash "
                      "DIR:SIZE, EBB_FLASH) or more memory (--memory, EBB_MEMORY).");
    }
    changed_.wait_for(lock, kTurn);
  }
  const Status status = adoption_->join(block);
  peak_resident_bytes_ = std::max(peak_resident_bytes_, core_.budget().resident_bytes());
  if (status == Status::kOk) return;
  core_.engine().disown(block);
  throw Error(status, status == Status::kBusy
                          ? "memory cannot be adopted: another userfaultfd watches it (a mirror, or another runtime)"
                          : "memory cannot be adopted: the kernel does not move its pages: unlock it first (munlock)");
}

std::size_t ManagedRuntime::end_adoption(std::span<std::byte> memory, bool unwanted) {
  if (child_) return 0;  // it is plain enough: the parent's is the one under a budget
  const std::lock_guard adopting(adopting_);
  std::size_t bytes = 0;
  while (Adopted* const adopted = claim_adopted(memory)) {
    const std::uint32_t before = adopted->released;
    try {
      unwanted ? discard_blocks(*adopted) : release_blocks(*adopted);
    } catch (...) {
      adopted->busy = false;
      throw;
    }
    bytes += (adopted->released - before) * core_.block_bytes();
    forget_adopted(*adopted);
  }
  return bytes;
}

// Something adopted inside `memory`, or null. Busy from under the lock on: the mover forgets what nobody is busy with
// as soon as its owner has unmapped it.
ManagedRuntime::Adopted* ManagedRuntime::claim_adopted(std::span<const std::byte> memory) {
  const Lock lock(mutex_);
  for (const auto& adopted : adopted_) {
    const std::uint64_t bytes = adopted->blocks.count * core_.block_bytes();
    if (!overlap(memory, adopted->data, bytes)) continue;
    if (memory.data() <= adopted->data && memory.data() + memory.size() >= adopted->data + bytes) {
      adopted->busy = true;
      return adopted.get();
    }
    throw Error(Status::kInvalid, "cannot release " + span_text(memory) + ": what was adopted there goes beyond it, " +
                                      span_text({adopted->data, bytes}) + "; release all of it");
  }
  return nullptr;
}

// Any at all, or null.
ManagedRuntime::Adopted* ManagedRuntime::claim_last_adopted() {
  const Lock lock(mutex_);
  if (adopted_.empty()) return nullptr;
  adopted_.back()->busy = true;
  return adopted_.back().get();
}

// Brings home what is left of it. Throws with the rest as it was, still adopted.
void ManagedRuntime::release_blocks(Adopted& adopted) {
  check_room(adopted);
  Lock lock(mutex_);
  for (; adopted.released < adopted.blocks.count; ++adopted.released) {
    const BlockIndex block(adopted.blocks.first.value() + adopted.released);
    // Untouched: never adopted, or nobody wants what was there.
    if (core_.table()[block].state != BlockState::kUntouched) bring_home(lock, block, adopted.blocks.end());
    if (adoption_->gone(block)) {
      static_cast<void>(abandon(lock, block));
      continue;
    }
    adoption_->leave(block);
    core_.engine().disown(block);
  }
}

void ManagedRuntime::check_room(const Adopted& adopted) {
  std::uint64_t away = 0;
  {
    const Lock lock(mutex_);
    for (BlockIndex i = adopted.blocks.first; i != adopted.blocks.end(); i = i.next()) {
      const BlockState state = core_.table()[i].state;
      away += state != BlockState::kResident && state != BlockState::kUntouched ? core_.block_bytes() : 0;
    }
  }
  if (away == 0) return;
  const std::uint64_t free = adoption_->free_bytes();
  if (away <= free) return;
  throw Error(Status::kNoMemory, "cannot release adopted memory: " + format_size(away) +
                                     " of it is on flash, and the machine has " + format_size(free) +
                                     " to bring it home to; free some first");
}

void ManagedRuntime::discard_blocks(Adopted& adopted) {
  Lock lock(mutex_);
  for (; adopted.released < adopted.blocks.count; ++adopted.released) {
    const BlockIndex block(adopted.blocks.first.value() + adopted.released);
    if (core_.table()[block].state == BlockState::kLost) memory_->forget_failure(block);
    const bool present = core_.table()[block].state == BlockState::kResident && !adoption_->gone(block);
    if (!present && !abandon(lock, block)) {
      throw Error(Status::kBusy, "cannot give adopted memory up: a transfer of it does not end");
    }
    adoption_->leave(block);
    if (!core_.table()[block].outside) core_.engine().disown(block);
  }
}

// Lock held.
bool ManagedRuntime::abandon(Lock& lock, BlockIndex block) {
  for (int turn = 0; !core_.engine().abandon(block); ++turn) {
    if (turn == kIdleTurnsMax) return false;
    after_change();
    changed_.wait_for(lock, kTurn);
  }
  return true;
}

// Waits until a block is in memory, and asks for those behind it. Lock held.
void ManagedRuntime::bring_home(Lock& lock, BlockIndex block, BlockIndex end) {
  const std::uint64_t begin_ns = monotonic_ns();
  for (int idle = 0; core_.table()[block].state != BlockState::kResident && !adoption_->gone(block);) {
    if (core_.table()[block].state == BlockState::kLost) {
      throw Error(Status::kCorrupt, "cannot release adopted memory: flash in '" + flash_directory_ +
                                        "' has lost a part of it. It stays adopted; a touch of that part fails.");
    }
    const std::uint32_t last = std::min(end.value(), block.value() + kHomeAhead);
    core_.adopted().want(block);
    for (BlockIndex i = block.next(); i.value() < last; i = i.next()) core_.adopted().want_ahead(i);
    pump();
    after_change();
    if (core_.table()[block].state == BlockState::kResident) break;
    idle = core_.engine().in_flight() > 0 ? 0 : idle + 1;
    if (idle > kIdleTurnsMax || monotonic_ns() - begin_ns > kBlockMaxNs) {
      throw Error(Status::kNoMemory, "cannot release adopted memory: nothing can leave the budget to bring it home");
    }
    changed_.wait_for(lock, kTurn);
  }
}

void ManagedRuntime::forget_adopted(const Adopted& adopted) {
  const Lock lock(mutex_);
  tell_core();
  core_.adopted().unreserve(adopted.blocks, adopted.offset);
  adoption_->remove(adopted.blocks);
  const std::lock_guard list(adopted_mutex_);
  std::erase_if(adopted_, [&](const auto& other) { return other.get() == &adopted; });
  adopted_count_ = adopted_.size();
}

// What owners have unmapped needs neither frame nor extent. Lock held; not on the fault thread.
void ManagedRuntime::settle_adopted() {
  adopted_changed_ = adoption_->changed() || adopted_changed_;
  if (!adopted_changed_) return;
  adopted_changed_ = false;
  for (std::size_t i = 0; i < adopted_.size();) {
    const Adopted& adopted = *adopted_[i];
    std::uint32_t gone = 0, pending = 0;
    for (BlockIndex block = adopted.blocks.first; block != adopted.blocks.end(); block = block.next()) {
      if (!adoption_->gone(block)) continue;
      ++gone;
      pending += core_.engine().abandon(block) ? 0 : 1;
    }
    adopted_changed_ = adopted_changed_ || pending > 0;
    if (adopted.busy || pending > 0 || gone < adopted.blocks.count) {
      ++i;
      continue;
    }
    tell_core();
    core_.adopted().unreserve(adopted.blocks, adopted.offset);
    adoption_->remove(adopted.blocks);
    const std::lock_guard list(adopted_mutex_);
    adopted_.erase(adopted_.begin() + static_cast<std::ptrdiff_t>(i));
    adopted_count_ = adopted_.size();
  }
}

// Before the runtime ends: who still uses the memory must find in it what was there.
void ManagedRuntime::release_all() noexcept {
  const std::lock_guard adopting(adopting_);
  while (Adopted* const adopted = claim_last_adopted()) {
    try {
      release_blocks(*adopted);
    } catch (const Error& error) {
      std::fprintf(stderr, "ebb: %s; a touch of what is missing fails with SIGSEGV\n", error.what());
      seal_rest(*adopted);
    }
    forget_adopted(*adopted);
  }
}

// What cannot come home must not be taken for zeros.
void ManagedRuntime::seal_rest(Adopted& adopted) {
  Lock lock(mutex_);
  for (; adopted.released < adopted.blocks.count; ++adopted.released) {
    const BlockIndex block(adopted.blocks.first.value() + adopted.released);
    if (core_.table()[block].state == BlockState::kResident && !adoption_->gone(block)) {
      adoption_->leave(block);
      core_.engine().disown(block);
      continue;
    }
    EBB_CHECK(abandon(lock, block));
    memory_->fail(block);
  }
}

bool ManagedRuntime::is_adopted(const void* data) const noexcept {
  const auto* const byte = static_cast<const std::byte*>(data);
  const std::lock_guard list(adopted_mutex_);
  return std::any_of(adopted_.begin(), adopted_.end(),
                     [&](const auto& adopted) { return overlap(adopted->given, byte, 1); });
}

// The part of an access that lies in adopted memory.
bool ManagedRuntime::adopted_range(const Access& access, Core::Range& range) const {
  const auto* const data = static_cast<const std::byte*>(access.data);
  const std::lock_guard list(adopted_mutex_);
  for (const auto& adopted : adopted_) {
    const std::uint64_t bytes = adopted->blocks.count * core_.block_bytes();
    if (adopted->busy || !overlap({data, access.bytes}, adopted->data, bytes)) continue;
    const std::byte* const first = std::max<const std::byte*>(data, adopted->data);
    const std::byte* const last = std::min<const std::byte*>(data + access.bytes, adopted->data + bytes);
    range.offset =
        adopted->blocks.first.value() * core_.block_bytes() + static_cast<std::uint64_t>(first - adopted->data);
    range.bytes = static_cast<std::uint64_t>(last - first);
    range.group = access.group;
    range.written = access.written;
    range.overwritten = access.overwritten;
    range.in_allocation = true;
    range.allocation = adopted->offset;
    return true;
  }
  return false;
}

}  // namespace ebb
