// SimDriver: what the program calls, as ManagedRuntime has it. The mover's part is in simulator.cc.
#include <algorithm>
#include <vector>

#include "base/check.h"
#include "sim/simulator.h"

namespace ebb {

void SimDriver::set_small_bytes(std::uint64_t bytes) {
  small_bytes_ = bytes;
  core_.budget().set_small_bytes(bytes, bytes);
  update_limit();
  pump();
}

void SimDriver::set_budget(std::uint64_t bytes) {
  budget_bytes_ = std::min(std::max(bytes, core_.budget().least_bytes()), core_.budget().most_bytes());
  core_.budget().set_bytes(budget_bytes_);
  update_limit();
  pump();
}

void SimDriver::keep(std::uint64_t offset) {
  core_.allocations().died(offset);
  kept_.push_back(offset);
  core_.engine().set_spare(true);
}

bool SimDriver::take_kept(std::uint64_t bytes, std::uint64_t& offset) {
  const std::uint64_t size = Heap::round_up(bytes);
  const auto found = std::find_if(kept_.rbegin(), kept_.rend(),
                                  [&](std::uint64_t other) { return core_.allocations().bytes_of(other) == size; });
  if (found == kept_.rend()) return false;
  offset = *found;
  kept_.erase(std::next(found).base());
  ++counters_.kept_taken;
  return true;
}

void SimDriver::tell_taken(std::uint64_t offset) {
  core_.allocations().born(offset);
  pump();
}

// As a runtime does it: frames at once, on any thread; addresses when the program calls.
void SimDriver::release_kept() {
  for (const std::uint64_t offset : kept_) {
    core_.allocations().release(offset);
    released_.push_back(offset);
    ++counters_.kept_released;
  }
  kept_.clear();
  core_.engine().set_spare(false);
}

void SimDriver::bury_released() {
  for (const std::uint64_t offset : released_) static_cast<void>(core_.allocations().bury(offset));
  released_.clear();
}

void SimDriver::give_up_kept() {
  release_kept();
  bury_released();
  if (!core_.engine().idle()) pump();
}

Status SimDriver::allocate(std::uint64_t bytes, std::uint64_t& offset) {
  bury_released();
  Status status = core_.allocations().allocate(bytes, offset);
  if (status != Status::kOk && !kept_.empty()) {
    give_up_kept();
    status = core_.allocations().allocate(bytes, offset);
  }
  update_limit();
  if (status != Status::kOk) return status;
  pump();
  const Core::Range range{offset, bytes, 0, false};
  for (Patience patience(*this); core_.launches().pending({&range, 1});) {
    patience.spend();
    EBB_CHECK(turn());
  }
  return status;
}

void SimDriver::deallocate(std::uint64_t offset) {
  core_.allocations().deallocate(offset);
  // Whoever waited for a transfer that has just been called off must not be forgotten.
  if (!core_.engine().idle()) pump();
}

Status SimDriver::reserve(std::uint32_t count, BlockRange& blocks, std::uint64_t& offset) {
  give_up_kept();
  const Status status = core_.adopted().reserve(count, blocks, offset);
  update_limit();
  return status;
}

Status SimDriver::map(const FilePlace& place, std::uint64_t bytes, std::uint64_t& first) {
  give_up_kept();
  const Status status = core_.files().map(place.file, place.offset, bytes, first);
  if (status == Status::kOk) files_.insert(place.file);
  update_limit();
  return status;
}

void SimDriver::unmap(BlockRange blocks) {
  core_.files().unmap(blocks);
  close_files();
  if (!core_.engine().idle()) pump();
}

void SimDriver::close_files() {
  for (std::int32_t file; (file = core_.take_unused_file()) != FilePlace::kNoFile;) {
    EBB_CHECK_EQ(files_.erase(file), 1u);
  }
}

bool SimDriver::all_files_closed() {
  close_files();
  return files_.empty();
}

bool SimDriver::renew(BlockIndex block) {
  const bool done = core_.files().renew(block);
  if (!core_.engine().idle()) pump();
  return done;
}

void SimDriver::make_frame_ahead(std::uint32_t turns) {
  const FrameIndex frame = core_.budget().begin_frame_ahead();
  if (!frame.valid()) return;
  const Status status = memory_.create(frame);
  // Refused, it is told so before anybody else asks: this memory counts what it has refused.
  for (std::uint32_t i = 0; i < turns && status == Status::kOk; ++i) turn();
  core_.budget().end_frame_ahead(frame, status);
  update_limit();
  pump();
}

bool SimDriver::adopt(BlockIndex block, std::span<const std::byte> content) {
  for (std::uint32_t stuck = 0; !core_.adopted().adopt(block);) {
    pump();
    stuck = turn() ? 0 : stuck + 1;
    if (stuck > kStarvedTurnsMax) return false;
  }
  memory_.adopt(core_.table()[block].frame, block, content);
  return true;
}

bool SimDriver::release(BlockIndex index, std::span<std::byte> content) {
  const Block& block = core_.table()[index];
  Patience patience(*this);
  for (std::uint32_t stuck = 0; block.state != BlockState::kResident;) {
    patience.spend();
    if (block.state == BlockState::kLost || block.state == BlockState::kUntouched) return false;
    core_.adopted().want(index);
    pump();
    if (block.state == BlockState::kResident) break;
    stuck = turn() ? 0 : stuck + 1;
    if (stuck > kStarvedTurnsMax) return false;
  }
  memory_.disown(index, content);
  core_.engine().disown(index);
  return true;
}

void SimDriver::abandon(BlockIndex index) {
  for (Patience patience(*this);;) {
    patience.spend();
    if (memory_.present(index)) memory_.unmap(index);
    if (core_.engine().abandon(index)) return pump();
    turn();
  }
}

std::uint64_t SimDriver::announce(std::uint64_t op, std::span<const Core::Range> ranges) {
  const std::uint64_t ticket = core_.launches().announce(op, ranges);
  pump();
  for (Patience patience(*this); core_.launches().waits(ticket, ranges);) {
    patience.spend();
    EBB_CHECK(turn());
  }
  return ticket;
}

SimDriver::Touch SimDriver::touch(BlockIndex block) {
  for (Patience patience(*this); !memory_.present(block);) {
    patience.spend();
    touch_elsewhere(block);
    while (memory_.awaited(block)) {
      patience.spend();
      EBB_CHECK(turn());
    }
    if (!memory_.failed(block)) {
      // It may have left again before the program could look: while a program tries again, the mover goes on.
      if (!memory_.present(block)) turn();
      continue;
    }
    return core_.table()[block].state == BlockState::kLost ? Touch::kLost : Touch::kStarved;
  }
  return Touch::kPresent;
}

void SimDriver::touch_elsewhere(BlockIndex block) {
  // The port lets a block fail until it is attached again; a program that went on after that asks once more here.
  counters_.stale_failures += memory_.failed(block) && core_.table()[block].state != BlockState::kLost ? 1 : 0;
  ++counters_.faults;
  memory_.await(block);
  core_.fault(block);
  pump();
}

void SimDriver::touch_late(BlockIndex block) {
  memory_.await_late(block);
  core_.fault(block);
  pump();
  EBB_CHECK(!memory_.awaited(block));
}

bool SimDriver::flush() {
  std::vector<BlockIndex> stay;
  core_.engine().freeze(stay);
  pump();
  for (Patience patience(*this); core_.engine().owed() > 0;) {
    patience.spend();
    turn();
  }
  bool complete = stay.empty();
  for (const Engine::Written& written : core_.engine().written()) {
    complete = complete && written.extent.valid();
    if (written.extent.valid()) core_.release_snapshot({&written.extent, 1});
  }
  core_.engine().forget_written();
  return complete;
}

}  // namespace ebb
