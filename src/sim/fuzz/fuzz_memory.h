// FuzzMemory: the memory of a fuzzer's program: allocated, kept, adopted, freed, read and written through the simulated
// runtime, and compared with the model at each access.
#pragma once

#include <algorithm>
#include <cinttypes>
#include <set>
#include <vector>

#include "sim/fuzz/fuzz_world.h"

namespace ebb {

class FuzzMemory : FuzzPart {
 public:
  explicit FuzzMemory(FuzzWorld& world) : FuzzPart(world), keeps_(world.keeps) {}

  std::uint64_t random_size() {
    const std::uint64_t most = rng_.below(10);
    if (most < 3) return rng_.between(1, kBlockBytes / 2 - 1);
    if (most < 7) return rng_.between(kBlockBytes / 2, 4 * kBlockBytes);
    if (most < 9) return rng_.between(kBlockBytes, scenario_.frames * kBlockBytes / 2);
    return rng_.between(kBlockBytes, scenario_.frames * kBlockBytes * 2);
  }

  bool allocate(std::uint64_t bytes) {
    history_.add("allocate(%" PRIu64 ")", bytes);
    std::uint64_t offset = 0;
    if (rng_.chance(3, 4) && driver_.take_kept(bytes, offset)) {
      history_.add("  = %" PRIu64 ", which was kept", offset);
      const std::uint64_t kept_bytes = driver_.core().allocations().bytes_of(offset);
      model_.add(offset, kept_bytes);
      if (rng_.chance(1, 2)) access({offset, kept_bytes, 0, false}, true);
      driver_.tell_taken(offset);
      return true;
    }
    if (driver_.allocate(bytes, offset) == Status::kOk) {
      history_.add("  = %" PRIu64, offset);
      EBB_CHECK_LE(bytes, driver_.core().allocations().bytes_of(offset));
      model_.add(offset, driver_.core().allocations().bytes_of(offset));
      return true;
    }
    // Refused: then really neither memory nor flash has a place for it, beside the tables as they may become; or files
    // may have all addresses.
    if (model_.mapped_bytes() > model_.blocks() / 4 * kBlockBytes) return false;
    Stats stats;
    driver_.core().fill(stats);
    const std::uint64_t places =
        driver_.memory().frames_limit() + scenario_.host_extents + stats.flash_limit_bytes / kBlockBytes;
    const std::uint64_t blocks = Heap::round_up(bytes) / kBlockBytes + 2;  // it may begin and end within a block
    const std::uint64_t tables = (kTableGrowthBytes + 128 * (blocks + places)) / kBlockBytes + 1;
    EBB_CHECK_LT(places, model_.live_blocks() + blocks + 2 + tables);
    return false;
  }

  void free_any() {
    if (!model_.allocations().empty()) free_one(rng_.below(model_.allocations().size()));
  }

  void free_one(std::size_t which) {
    const FuzzModel::Allocation allocation = model_.allocations()[which];
    history_.add("deallocate(%" PRIu64 ")", allocation.offset);
    // A program that frees what another of its threads is just touching is on its own.
    const BlockRange blocks = driver_.core().blocks_of(allocation.offset, allocation.bytes);
    for (BlockIndex i = blocks.first; i != blocks.end(); i = i.next()) {
      if (driver_.memory().awaited(i)) driver_.settle();
    }
    for (const FuzzQueued& queued : queued_) {
      if (queued.uses(allocation)) driver_.core().launches().forget(queued.expected);
    }
    std::erase_if(queued_, [&](const FuzzQueued& queued) { return queued.uses(allocation); });
    if (allocation.kind == FuzzModel::Kind::kMapped) {
      driver_.unmap(blocks);
      model_.undefine(blocks.first.value() * kBlockBytes, blocks.count * kBlockBytes);
    } else if (allocation.kind == FuzzModel::Kind::kAdopted) {
      end_adoption(blocks);
      driver_.core().adopted().unreserve(blocks, allocation.reserved);
      if (!driver_.core().engine().idle()) driver_.pump();
    } else if (keeps_ && rng_.chance(1, 2)) {
      driver_.keep(allocation.offset);
    } else {
      driver_.deallocate(allocation.offset);
    }
    model_.remove(which);
  }

  // Some blocks of memory that the program has, with what is in them.
  void adopt() {
    const auto count = static_cast<std::uint32_t>(rng_.between(1, scenario_.frames + 4));
    BlockRange blocks;
    std::uint64_t reserved = 0;
    const Status status = driver_.reserve(count, blocks, reserved);
    history_.add("adopt(%u blocks) %s", count, name(status));
    if (status != Status::kOk) return;
    std::vector<std::byte> content(kBlockBytes);
    for (std::uint32_t i = 0; i < count; ++i) {
      const BlockIndex block(blocks.first.value() + i);
      if (!driver_.adopt(block, content)) {
        // Nothing is under the budget that was not before.
        history_.add("  block %u finds no room", block.value());
        EBB_CHECK(!scenario_.steady || scenario_.pinned_percent > 0);  // what is pinned cannot make room
        end_adoption({blocks.first, i});
        return driver_.core().adopted().unreserve(blocks, reserved);
      }
    }
    model_.add(blocks.first.value() * kBlockBytes, count * kBlockBytes, FuzzModel::Kind::kAdopted, reserved);
    access({blocks.first.value() * kBlockBytes, count * kBlockBytes, 0, false}, true);
  }

  // A part of a file that never changes.
  void map() {
    const auto blocks = static_cast<std::uint32_t>(rng_.between(1, scenario_.frames + 4));
    const std::uint64_t bytes = blocks * kBlockBytes - rng_.below(kBlockBytes / FuzzModel::kGrain) * FuzzModel::kGrain;
    const FilePlace place{static_cast<std::int32_t>(rng_.below(3)), rng_.below(16) * kBlockBytes, 0};
    std::uint64_t first = 0;
    const Status status = driver_.map(place, bytes, first);
    history_.add("map(%" PRIu64 ") %s %" PRIu64, bytes, name(status), first);
    if (status != Status::kOk) return;
    model_.add(first, bytes, FuzzModel::Kind::kMapped);
    define_from_file(first, {place.file, place.offset, static_cast<std::uint32_t>(bytes)});
  }

  // A block of a file is as the file has it again.
  void renew() {
    const auto& all = model_.allocations();
    const auto mapped =
        std::find_if(all.begin(), all.end(), [](const auto& each) { return each.kind == FuzzModel::Kind::kMapped; });
    if (mapped == all.end()) return;
    const BlockRange blocks = driver_.core().blocks_of(mapped->offset, mapped->bytes);
    const BlockIndex block(blocks.first.value() + static_cast<std::uint32_t>(rng_.below(blocks.count)));
    const bool done = driver_.renew(block);
    history_.add("renew(%u) %s", block.value(), done ? "done" : "not now");
    if (!done) return;
    const std::uint64_t begin = block.value() * kBlockBytes;
    define_from_file(begin, driver_.core().files().place_of(block));
    model_.find(block);
    undefine_queued(begin, begin + kBlockBytes);
  }

  // A range of whole grains within an allocation.
  Core::Range part_of(const FuzzModel::Allocation& allocation) {
    const std::uint64_t grains = allocation.bytes / FuzzModel::kGrain;
    const std::uint64_t first = rng_.chance(1, 2) ? 0 : rng_.below(grains);
    const std::uint64_t count = rng_.chance(1, 2) ? grains - first : rng_.between(1, grains - first);
    return {allocation.offset + first * FuzzModel::kGrain, count * FuzzModel::kGrain, allocation.offset, true};
  }

  void access(bool write) {
    if (model_.allocations().empty()) return;
    const auto& all = model_.allocations();
    access(part_of(all[rng_.below(all.size())]), write);
  }

  void access(const Core::Range& range, bool write) {
    // What is written to a file's memory is promised no place.
    write = write && !(scenario_.steady && model_.mapped(range.offset));
    history_.add("%s(%" PRIu64 ", %" PRIu64 ")", write ? "write" : "read", range.offset, range.bytes);
    const BlockRange blocks = driver_.core().blocks_of(range.offset, range.bytes);
    for (BlockIndex i = blocks.first; i != blocks.end(); i = i.next()) {
      const std::uint64_t begin = std::max<std::uint64_t>(range.offset, i.value() * kBlockBytes);
      const std::uint64_t end = std::min<std::uint64_t>(range.offset + range.bytes, (i.value() + 1) * kBlockBytes);
      const SimDriver::Touch touched = touch(i);
      if (touched == SimDriver::Touch::kStarved && rng_.chance(3, 4)) return;  // a program that fails does no more
      if (touched != SimDriver::Touch::kPresent) continue;
      const std::span<std::byte> bytes = driver_.memory().bytes(i);
      // Often what was there some time ago, or zeros: that a block is as one of its copies has to be told apart.
      if (write) model_.write(begin, end - begin, rng_.chance(1, 2) ? rng_.next() : rng_.below(3), bytes);
      EBB_CHECK(model_.matches(i, bytes));
      driver_.log().note(EventLog::Kind::kProgram, i.value(), begin, write);
      undefine_queued(begin, end);
    }
  }

  void overwrite(const Core::Range& range) {
    if (!range.overwritten) return;
    model_.undefine(range.offset, range.bytes);
    const BlockRange whole = driver_.core().whole_blocks_of(range.offset, range.bytes);
    for (BlockIndex i = whole.first; whole.count > 0 && i != whole.end(); i = i.next()) overwritten_.insert(i);
  }

  void set_small_bytes() {
    if (scenario_.steady) return;
    const std::uint64_t bytes = rng_.chance(1, 3) ? 0 : rng_.below(scenario_.frames * kBlockBytes * 3 / 4);
    history_.add("set_small_bytes(%" PRIu64 ")", bytes);
    driver_.set_small_bytes(bytes);
  }

  void set_budget() {
    if (scenario_.steady) return;
    const std::uint64_t most = driver_.core().budget().most_bytes();
    const std::uint64_t bytes = rng_.chance(1, 4) ? most : rng_.below(most + 1);
    history_.add("set_budget(%" PRIu64 ")", bytes);
    driver_.set_budget(bytes);
  }

  void make_frame() {
    history_.add("make_frame");
    driver_.make_frame_ahead(static_cast<std::uint32_t>(rng_.below(4)));
  }

  void pin() {
    const BlockIndex block = driver_.core().table().block_of(
        FrameIndex(static_cast<std::uint32_t>(rng_.below(driver_.core().table().frames_max()))));
    if (!block.valid() || !driver_.memory().present(block)) return;
    history_.add("pin(%u)", block.value());
    driver_.memory().pin(block);
  }

  void touch_elsewhere() {
    std::vector<BlockIndex> absent;
    for (std::uint32_t i = 0; i < model_.blocks(); ++i) {
      const BlockIndex block(i);
      if (model_.live(block) && !driver_.memory().present(block)) absent.push_back(block);
    }
    if (absent.empty()) return;
    const std::uint64_t count = rng_.between(1, 4);
    for (std::uint64_t i = 0; i < count; ++i) {
      const BlockIndex block = absent[rng_.below(absent.size())];
      if (driver_.memory().present(block)) {
        driver_.touch_late(block);  // it came while this one was telling of its fault
        continue;
      }
      history_.add("another thread touches block %u", block.value());
      driver_.touch_elsewhere(block);
    }
  }

 private:
  static constexpr std::uint64_t kTableGrowthBytes = 32 << 10;  // until the core looks at them again

  // What a queued launch will overwrite may be gone as soon as the next event.
  void undefine_queued(std::uint64_t begin, std::uint64_t end) {
    for (const FuzzQueued& queued : queued_) {
      for (const Core::Range& other : queued.ranges) {
        const std::uint64_t first = std::max(other.offset, begin);
        const std::uint64_t last = std::min(other.offset + other.bytes, end);
        if (other.overwritten && first < last) model_.undefine(first, last - first);
      }
    }
  }

  // What a file has there, and zeros beyond, to the end of the block.
  void define_from_file(std::uint64_t begin, const FilePlace& place) {
    std::vector<std::byte> content((place.bytes + kBlockBytes - 1) / kBlockBytes * kBlockBytes);
    SimFlash::fill_from_file(place, std::span(content).first(place.bytes));
    model_.define(begin, content);
  }

  void end_adoption(BlockRange blocks) {
    const bool wanted = rng_.chance(2, 3);
    std::vector<std::byte> content(kBlockBytes);
    for (std::uint32_t i = 0; i < blocks.count; ++i) {
      const BlockIndex block(blocks.first.value() + i);
      if (wanted && driver_.release(block, content)) {
        EBB_CHECK(model_.lost(block) || model_.matches(block, content));
      } else {
        driver_.abandon(block);
      }
    }
  }

  SimDriver::Touch touch(BlockIndex block) {
    const SimDriver::Touch touched = driver_.touch(block);
    switch (touched) {
      case SimDriver::Touch::kPresent:
        EBB_CHECK(!model_.lost(block) || overwritten_.contains(block));
        model_.find(block);
        break;
      case SimDriver::Touch::kLost:
        EBB_CHECK(scenario_.faults.may_lose());
        history_.add("  block %u is lost", block.value());
        model_.lose(block);
        break;
      case SimDriver::Touch::kStarved:
        EBB_CHECK(!scenario_.steady);
        history_.add("  block %u starves", block.value());
        break;
    }
    return touched;
  }

  const bool keeps_;
  std::set<BlockIndex> overwritten_;  // at some time: what was lost of them may be there again
};

}  // namespace ebb
