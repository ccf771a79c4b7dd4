// FuzzProgram: a random program over a simulated runtime and a model of its memory: allocations of all sizes, launches
// within launches, loops like those of training, reads and writes, threads that touch what is absent, forks, pinned
// pages, other memory that grows and shrinks. It promises, after every operation, what Ebbtide promises.
//
// Header-only: the fuzzer is one program. The last operations are kept as text, for whoever reads a failure.
#pragma once

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core_fuzz_model.h"
#include "sim/scenario.h"
#include "sim/simulator.h"

namespace ebb {

// The last operations of the run under way, oldest first: static, because it is read from a signal handler.
class FuzzHistory {
 public:
  static constexpr std::size_t kKept = 30;

  void add(const char* format, ...) __attribute__((format(printf, 2, 3))) {
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(lines_[count_++ % kKept].data(), kLineMax, format, arguments);
    va_end(arguments);
  }
  void clear() { count_ = 0; }
  void print() const {
    for (std::size_t i = count_ > kKept ? count_ - kKept : 0; i < count_; ++i) {
      std::fprintf(stderr, "  %zu: %s\n", i, lines_[i % kKept].data());
    }
  }

 private:
  static constexpr std::size_t kLineMax = 160;
  std::array<std::array<char, kLineMax>, kKept> lines_{};
  std::size_t count_ = 0;
};

class FuzzProgram {
 public:
  FuzzProgram(const Scenario& scenario, std::uint64_t seed, FuzzHistory& history)
      : scenario_(scenario),
        rng_(seed),
        keeps_(rng_.chance(1, 2)),
        history_(history),
        blocks_((scenario.frames + scenario.extents + scenario.host_extents) * 8 / 4 * 4),
        driver_(driver_config(scenario, seed, blocks_)),
        model_(blocks_, kBlockBytes) {}

  // Runs the whole program; returns the hash of all that happened, and of one more random number.
  std::uint64_t run() {
    for (std::uint32_t step = 0; step < scenario_.steps; ++step) {
      operation();
      driver_.validate();
    }
    finish();
    driver_.log().note(EventLog::Kind::kProgram, rng_.next());
    return driver_.log().hash();
  }

  const SimDriver& driver() const { return driver_; }
  SimDriver& driver() { return driver_; }

 private:
  static constexpr std::uint64_t kBlockBytes = 4096;
  static constexpr std::size_t kRunningMax = 3;
  static constexpr std::size_t kSnapshotsMax = 2;
  static constexpr std::size_t kQueuedMax = 8;
  static constexpr std::uint64_t kTableGrowthBytes = 32 << 10;  // until the core looks at them again

  struct Kept {  // a block of a snapshot, as it was
    ExtentIndex extent;
    Digest digest;
    std::vector<std::byte> content;
  };
  struct Queued {
    std::uint64_t expected = 0;
    std::vector<Core::Range> ranges;
  };
  struct Snapshot {
    std::vector<ExtentIndex> extents;
    std::vector<Kept> blocks;
    std::map<std::uint32_t, std::vector<std::byte>> owed;  // by frame: what was in it at the moment
  };

  static SimDriver::Config driver_config(const Scenario& scenario, std::uint64_t seed, std::uint32_t blocks) {
    SimDriver::Config config;
    config.block_bytes = kBlockBytes;
    config.frames = scenario.frames;
    config.blocks = blocks;
    config.extents = scenario.extents;
    config.host_extents = scenario.host_extents;
    config.seed = seed;
    config.policy = scenario.policy;
    config.faults = scenario.faults;
    return config;
  }

  void operation() {
    settle_written();
    if (rng_.chance(1, 10)) return rng_.chance(1, 2) ? queue() : run_queued(rng_.chance(1, 8));
    const std::uint64_t dice = rng_.below(100);
    if (dice < 16) {
      allocate(random_size());
    } else if (dice < 26) {
      free_any();
    } else if (dice < 44) {
      access(true);
    } else if (dice < 60) {
      access(false);
    } else if (dice < 72) {
      announce();
    } else if (dice < 82) {
      retire();
    } else if (dice < 88) {
      touch_elsewhere();
    } else if (dice < 89) {
      adopt();
    } else if (dice < 90) {
      train();
    } else if (dice < 92) {
      set_small_bytes();
    } else if (dice < 94) {
      snapshot();
    } else if (dice < 96) {
      release_snapshot();
    } else {
      rest();
    }
    if (scenario_.pinned_percent > 0 && rng_.chance(scenario_.pinned_percent, 100)) pin();
  }

  std::uint64_t random_size() {
    const std::uint64_t most = rng_.below(10);
    if (most < 3) return rng_.between(1, kBlockBytes / 2 - 1);
    if (most < 7) return rng_.between(kBlockBytes / 2, 4 * kBlockBytes);
    if (most < 9) return rng_.between(kBlockBytes, scenario_.frames * kBlockBytes / 2);
    return rng_.between(kBlockBytes, scenario_.frames * kBlockBytes * 2);
  }

  bool allocate(std::uint64_t bytes) {
    history_.add("allocate(%llu)", static_cast<unsigned long long>(bytes));
    std::uint64_t offset = 0;
    if (rng_.chance(3, 4) && driver_.take_kept(bytes, offset)) {
      history_.add("  = %llu, which was kept", static_cast<unsigned long long>(offset));
      model_.add(offset, driver_.core().allocations().bytes_of(offset));
      return true;
    }
    if (driver_.allocate(bytes, offset) == Status::kOk) {
      history_.add("  = %llu", static_cast<unsigned long long>(offset));
      EBB_CHECK_LE(bytes, driver_.core().allocations().bytes_of(offset));
      model_.add(offset, driver_.core().allocations().bytes_of(offset));
      return true;
    }
    // Refused: then really neither memory nor flash has a place for it, beside the tables as they may become.
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
    history_.add("deallocate(%llu)", static_cast<unsigned long long>(allocation.offset));
    // A program that frees what another of its threads is just touching is on its own.
    const BlockRange blocks = driver_.core().blocks_of(allocation.offset, allocation.bytes);
    for (BlockIndex i = blocks.first; i != blocks.end(); i = i.next()) {
      if (driver_.memory().awaited(i)) driver_.settle();
    }
    for (const Queued& queued : queued_) {
      if (uses(queued, allocation)) driver_.core().launches().forget(queued.expected);
    }
    std::erase_if(queued_, [&](const Queued& queued) { return uses(queued, allocation); });
    if (allocation.adopted) {
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
    model_.add(blocks.first.value() * kBlockBytes, count * kBlockBytes, true, reserved);
    access({blocks.first.value() * kBlockBytes, count * kBlockBytes, 0, false}, true);
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
    history_.add("%s(%llu, %llu)", write ? "write" : "read", static_cast<unsigned long long>(range.offset),
                 static_cast<unsigned long long>(range.bytes));
    const BlockRange blocks = driver_.core().blocks_of(range.offset, range.bytes);
    for (BlockIndex i = blocks.first; i != blocks.end(); i = i.next()) {
      const std::uint64_t begin = std::max<std::uint64_t>(range.offset, i.value() * kBlockBytes);
      const std::uint64_t end = std::min<std::uint64_t>(range.offset + range.bytes, (i.value() + 1) * kBlockBytes);
      if (!touch(i)) continue;
      const std::span<std::byte> bytes = driver_.memory().bytes(i);
      if (write) model_.write(begin, end - begin, rng_.next(), bytes);
      EBB_CHECK(model_.matches(i, bytes));
      driver_.log().note(EventLog::Kind::kProgram, i.value(), begin, write);
      // What a queued launch will overwrite may be gone as soon as the next event.
      for (const Queued& queued : queued_) {
        for (const Core::Range& other : queued.ranges) {
          const std::uint64_t first = std::max(other.offset, begin);
          const std::uint64_t last = std::min(other.offset + other.bytes, end);
          if (other.overwritten && first < last) model_.undefine(first, last - first);
        }
      }
    }
  }

  // Whether the program may go on to look at the block.
  bool touch(BlockIndex block) {
    switch (driver_.touch(block)) {
      case SimDriver::Touch::kPresent:
        EBB_CHECK(!model_.lost(block) || overwritten_.contains(block));
        model_.find(block);
        return true;
      case SimDriver::Touch::kLost:
        EBB_CHECK(scenario_.faults.may_lose());
        history_.add("  block %u is lost", block.value());
        model_.lose(block);
        return false;
      case SimDriver::Touch::kStarved:
        EBB_CHECK(!scenario_.steady);
        history_.add("  block %u starves", block.value());
        return false;
    }
    return false;
  }

  void announce() {
    if (model_.allocations().empty() || running_.size() >= kRunningMax) return;
    std::vector<Core::Range> ranges;
    const std::uint64_t count = rng_.between(1, 4);
    for (std::uint64_t i = 0; i < count; ++i) {
      ranges.push_back(part_of(model_.allocations()[rng_.below(model_.allocations().size())]));
      ranges.back().group = static_cast<std::uint32_t>(i / 2);
      ranges.back().written = rng_.chance(1, 2);
    }
    running_.push_back(launch(rng_.below(8), ranges));
    for (const Core::Range& range : ranges) {
      if (rng_.chance(1, 2)) access(range, rng_.chance(1, 2));
    }
  }

  std::uint64_t launch(std::uint64_t op, const std::vector<Core::Range>& ranges) {
    history_.add("announce(%llu, %zu ranges, first %llu + %llu)", static_cast<unsigned long long>(op), ranges.size(),
                 static_cast<unsigned long long>(ranges.front().offset),
                 static_cast<unsigned long long>(ranges.front().bytes));
    return driver_.announce(op, ranges);
  }

  static bool uses(const Queued& queued, const FuzzModel::Allocation& allocation) {
    return std::any_of(queued.ranges.begin(), queued.ranges.end(), [&](const Core::Range& range) {
      return range.offset < allocation.offset + allocation.bytes && allocation.offset < range.offset + range.bytes;
    });
  }

  // A launch to come, which will overwrite some of what it uses: from now on that is undefined.
  void queue() {
    if (model_.allocations().empty() || queued_.size() >= kQueuedMax) return;
    Queued queued;
    const std::uint64_t count = rng_.between(1, 4);
    for (std::uint64_t i = 0; i < count; ++i) {
      const Core::Range range = part_of(model_.allocations()[rng_.below(model_.allocations().size())]);
      const bool apart = std::none_of(queued.ranges.begin(), queued.ranges.end(), [&](const Core::Range& other) {
        return other.offset < range.offset + range.bytes && range.offset < other.offset + other.bytes;
      });
      if (!apart) continue;
      queued.ranges.push_back(range);
      queued.ranges.back().overwritten = rng_.chance(1, 3);
    }
    history_.add("expect(%zu ranges)", queued.ranges.size());
    for (const Core::Range& range : queued.ranges) overwrite(range);
    queued.expected = driver_.core().launches().expect(queued.ranges);
    driver_.pump();
    queued_.push_back(std::move(queued));
  }

  void overwrite(const Core::Range& range) {
    if (!range.overwritten) return;
    model_.undefine(range.offset, range.bytes);
    const BlockRange whole = driver_.core().whole_blocks_of(range.offset, range.bytes);
    for (BlockIndex i = whole.first; whole.count > 0 && i != whole.end(); i = i.next()) overwritten_.insert(i);
  }

  // The oldest queued launch runs, or will not run after all.
  void run_queued(bool cancel) {
    if (queued_.empty()) return;
    const Queued queued = queued_.front();
    queued_.erase(queued_.begin());
    if (!cancel) {
      for (const Core::Range& range : queued.ranges) overwrite(range);
      const std::uint64_t ticket = launch(rng_.below(8), queued.ranges);
      driver_.core().launches().begin(queued.expected);
      for (const Core::Range& range : queued.ranges) {
        if (rng_.chance(1, 2)) access(range, range.overwritten || rng_.chance(1, 3));
      }
      driver_.core().launches().forget(queued.expected);
      driver_.core().launches().retire(ticket);
    } else {
      history_.add("forget");
      driver_.core().launches().forget(queued.expected);
    }
    driver_.pump();
  }

  void retire() {
    if (running_.empty()) return;
    const std::size_t which = rng_.below(running_.size());
    history_.add("retire(%llu)", static_cast<unsigned long long>(running_[which]));
    driver_.core().launches().retire(running_[which]);
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(which));
  }

  void touch_elsewhere() {
    std::vector<BlockIndex> absent;
    for (std::uint32_t i = 0; i < blocks_; ++i) {
      const BlockIndex block(i);
      if (model_.live(block) && !driver_.memory().present(block)) absent.push_back(block);
    }
    if (absent.empty()) return;
    const std::uint64_t count = rng_.between(1, 3);
    for (std::uint64_t i = 0; i < count; ++i) {
      const BlockIndex block = absent[rng_.below(absent.size())];
      if (driver_.memory().present(block)) continue;
      history_.add("another thread touches block %u", block.value());
      driver_.touch_elsewhere(block);
    }
  }

  // Some iterations that do the same: parameters that stay, activations that come and go.
  void train() {
    const std::size_t parameters = std::min<std::size_t>(model_.allocations().size(), rng_.between(1, 6));
    if (parameters == 0) return;
    const auto begin = model_.allocations().begin();
    const std::vector<FuzzModel::Allocation> kept(begin, begin + static_cast<std::ptrdiff_t>(parameters));
    const std::uint64_t bytes = random_size() % (scenario_.frames * kBlockBytes / 4) + 1;
    const std::uint64_t iterations = rng_.between(2, 5);
    history_.add("train(%zu parameters, %llu iterations)", parameters, static_cast<unsigned long long>(iterations));
    const bool backward = rng_.chance(1, 2);
    for (std::uint64_t iteration = 0; iteration < iterations; ++iteration) {
      if (backward) train_both_ways(kept, bytes);
      for (std::size_t layer = 0; !backward && layer < kept.size(); ++layer) {
        const bool made = allocate(bytes);
        std::vector<Core::Range> ranges{{kept[layer].offset, kept[layer].bytes, kept[layer].offset, true}};
        if (made) {
          const FuzzModel::Allocation& activation = model_.allocations().back();
          ranges.push_back({activation.offset, activation.bytes, activation.offset, true});
        }
        ranges.back().written = rng_.chance(3, 4);  // what a launch declares to write is sometimes wrong
        const std::uint64_t ticket = launch(100 + layer, ranges);
        access(ranges.front(), rng_.chance(1, 3));
        access(ranges.back(), true);
        driver_.core().launches().retire(ticket);
        if (made) free_one(model_.allocations().size() - 1);
      }
      driver_.core().launches().step();
      driver_.pump();
      driver_.validate();
    }
  }

  // Forward the activations are kept, backward they are used in the opposite order and freed; sometimes the program
  // does something else in between.
  void train_both_ways(const std::vector<FuzzModel::Allocation>& kept, std::uint64_t bytes) {
    std::vector<FuzzModel::Allocation> activations;
    for (std::size_t layer = 0; layer < kept.size(); ++layer) {
      if (!allocate(bytes)) break;
      activations.push_back(model_.allocations().back());
      pass(200 + layer, kept[layer], activations.back(), true);
    }
    if (rng_.chance(1, 16)) access(rng_.chance(1, 2));
    for (std::size_t layer = activations.size(); layer-- > 0;) {
      pass(300 + layer, kept[layer], activations[layer], false);
      const auto& all = model_.allocations();
      const auto found = std::find_if(all.begin(), all.end(), [&](const FuzzModel::Allocation& allocation) {
        return allocation.offset == activations[layer].offset;
      });
      free_one(static_cast<std::size_t>(found - all.begin()));
    }
  }

  void pass(std::uint64_t op, const FuzzModel::Allocation& weight, const FuzzModel::Allocation& activation, bool make) {
    const std::vector<Core::Range> ranges{{weight.offset, weight.bytes, weight.offset, true, 0, !make},
                                          {activation.offset, activation.bytes, activation.offset, true, 0, make}};
    const std::uint64_t ticket = launch(op, ranges);
    access(ranges.front(), !make);
    access(ranges.back(), make);
    driver_.core().launches().retire(ticket);
    driver_.core().launches().ran(1000);
  }

  void set_small_bytes() {
    if (scenario_.steady) return;
    const std::uint64_t bytes = rng_.chance(1, 3) ? 0 : rng_.below(scenario_.frames * kBlockBytes * 3 / 4);
    history_.add("set_small_bytes(%llu)", static_cast<unsigned long long>(bytes));
    driver_.set_small_bytes(bytes);
  }

  void pin() {
    const BlockIndex block = driver_.core().table().block_of(
        FrameIndex(static_cast<std::uint32_t>(rng_.below(driver_.core().table().frames_max()))));
    if (!block.valid() || !driver_.memory().present(block)) return;
    history_.add("pin(%u)", block.value());
    driver_.memory().pin(block);
  }

  void rest() {
    history_.add("rest");
    if (rng_.chance(1, 2)) {
      driver_.settle();
    } else {
      driver_.turn();
    }
    if (rng_.chance(1, 3)) driver_.memory().unpin_all();
  }

  // Takes a snapshot, as at a fork, and remembers what the child must find, at once or when it has been written.
  void snapshot() {
    if (scenario_.steady || snapshots_.size() >= kSnapshotsMax) return;
    driver_.give_up_kept();
    settle_written();
    Core& core = driver_.core();
    std::vector<BlockIndex> stay;
    core.engine().freeze(stay);
    history_.add("snapshot, %u to be written, %zu stay", core.engine().owed(), stay.size());
    Snapshot snapshot;
    snapshot.extents = core.snapshot();
    for (std::uint32_t i = 0; i < blocks_; ++i) {
      const BlockIndex index(i);
      const Block& block = core.table()[index];
      if (block.owed) {
        const std::span<const std::byte> content = driver_.memory().home(block.frame);
        EBB_CHECK(model_.matches(index, content));
        snapshot.owed[block.frame.value()].assign(content.begin(), content.end());
        continue;
      }
      if (!block.extent.valid()) continue;
      Kept kept{block.extent, core.extents().digest_of(block.extent), std::vector<std::byte>(kBlockBytes)};
      if (driver_.device().damaged(block.extent.value())) continue;
      EBB_CHECK(driver_.flash().read_now(kept.extent, kept.digest, kept.content) == Status::kOk);
      // What a child finds is what was there at the fork; what it cannot find it is told.
      EBB_CHECK(model_.matches(index, kept.content));
      snapshot.blocks.push_back(std::move(kept));
    }
    snapshots_.push_back(std::move(snapshot));
    driver_.pump();
  }

  // What has been written for children is theirs.
  void settle_written() {
    Core& core = driver_.core();
    for (const Engine::Written& written : core.engine().written()) {
      for (Snapshot& snapshot : snapshots_) {
        const auto found = snapshot.owed.find(written.frame.value());
        if (found == snapshot.owed.end()) continue;
        if (written.extent.valid()) {
          core.retain(written.extent);
          snapshot.extents.push_back(written.extent);
          snapshot.blocks.push_back(
              {written.extent, core.extents().digest_of(written.extent), std::move(found->second)});
        }
        snapshot.owed.erase(found);
      }
      if (written.extent.valid()) core.release_snapshot({&written.extent, 1});
    }
    core.engine().forget_written();
    const bool wanted = std::ranges::any_of(snapshots_, [](const Snapshot& kept) { return !kept.owed.empty(); });
    if (core.engine().owed() == 0 || wanted) return;
    history_.add("thaw");
    core.engine().thaw();
    driver_.pump();
  }

  void release_snapshot() {
    if (snapshots_.empty()) return;
    const std::size_t which = rng_.below(snapshots_.size());
    history_.add("release_snapshot(%zu)", which);
    std::vector<std::byte> content(kBlockBytes);
    for (const Kept& kept : snapshots_[which].blocks) {
      const Status status = driver_.flash().read_now(kept.extent, kept.digest, content);
      if (driver_.device().damaged(kept.extent.value())) continue;
      EBB_CHECK(status == Status::kOk);
      EBB_CHECK(content == kept.content);
    }
    driver_.core().release_snapshot(snapshots_[which].extents);
    snapshots_.erase(snapshots_.begin() + static_cast<std::ptrdiff_t>(which));
    driver_.pump();
  }

  // Everything is read once more and given back: nothing may be left over.
  void finish() {
    history_.add("finish");
    driver_.memory().unpin_all();
    while (!running_.empty()) retire();
    while (!queued_.empty()) run_queued(false);
    while (!snapshots_.empty()) release_snapshot();
    settle_written();
    driver_.settle();
    settle_written();
    for (const FuzzModel::Allocation& allocation : std::vector(model_.allocations())) {
      access({allocation.offset, allocation.bytes, allocation.offset, true}, false);
    }
    driver_.settle();
    while (!model_.allocations().empty()) free_one(model_.allocations().size() - 1);
    driver_.give_up_kept();
    driver_.pump();
    driver_.settle();
    driver_.validate();
    const PageTable& table = driver_.core().table();
    EBB_CHECK_EQ(driver_.core().extents().used(), 0u);
    EBB_CHECK_EQ(table.count(BlockState::kResident), driver_.core().engine().dead_resident());
    EBB_CHECK_EQ(table.count(BlockState::kResident) + table.count(BlockState::kUntouched), table.size());
    EBB_CHECK_EQ(driver_.device().in_flight(), 0u);
  }

  const Scenario scenario_;
  Rng rng_;
  const bool keeps_;  // whether freed ranges are sometimes kept for reuse, as by a runtime's cache
  FuzzHistory& history_;
  std::uint32_t blocks_;
  SimDriver driver_;
  FuzzModel model_;
  std::vector<std::uint64_t> running_;
  std::vector<Queued> queued_;        // in the order in which they will run
  std::set<BlockIndex> overwritten_;  // at some time: what was lost of them may be there again
  std::vector<Snapshot> snapshots_;
};

}  // namespace ebb
