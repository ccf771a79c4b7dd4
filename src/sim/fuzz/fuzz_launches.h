// FuzzLaunches: what a fuzzer's program announces and runs: launches within launches, launches that are queued and may
// be forgotten, and loops like those of training.
#pragma once

#include <algorithm>
#include <cinttypes>
#include <utility>
#include <vector>

#include "sim/fuzz/fuzz_memory.h"

namespace ebb {

class FuzzLaunches : FuzzPart {
 public:
  FuzzLaunches(FuzzWorld& world, FuzzMemory& memory) : FuzzPart(world), memory_(memory) {}

  void announce() {
    if (model_.allocations().empty() || running_.size() >= kRunningMax) return;
    std::vector<Core::Range> ranges;
    const std::uint64_t count = rng_.between(1, 4);
    for (std::uint64_t i = 0; i < count; ++i) {
      ranges.push_back(memory_.part_of(model_.allocations()[rng_.below(model_.allocations().size())]));
      ranges.back().group = static_cast<std::uint32_t>(i / 2);
      ranges.back().written = rng_.chance(1, 2);
    }
    running_.push_back(launch(rng_.below(8), ranges));
    for (const Core::Range& range : ranges) {
      if (rng_.chance(1, 2)) memory_.access(range, rng_.chance(1, 2));
    }
  }

  // A launch to come, which will overwrite some of what it uses: from now on that is undefined.
  void queue() {
    if (model_.allocations().empty() || queued_.size() >= kQueuedMax) return;
    FuzzQueued queued;
    const std::uint64_t count = rng_.between(1, 4);
    for (std::uint64_t i = 0; i < count; ++i) {
      const Core::Range range = memory_.part_of(model_.allocations()[rng_.below(model_.allocations().size())]);
      const bool apart = std::none_of(queued.ranges.begin(), queued.ranges.end(), [&](const Core::Range& other) {
        return other.offset < range.offset + range.bytes && range.offset < other.offset + other.bytes;
      });
      if (!apart) continue;
      queued.ranges.push_back(range);
      queued.ranges.back().overwritten =
          rng_.chance(1, 3) && !(scenario_.steady && model_.mapped(queued.ranges.back().offset));
    }
    history_.add("expect(%zu ranges)", queued.ranges.size());
    for (const Core::Range& range : queued.ranges) memory_.overwrite(range);
    queued.expected = driver_.core().launches().expect(queued.ranges);
    driver_.pump();
    queued_.push_back(std::move(queued));
  }

  // The oldest queued launch runs, or will not run after all.
  void run_queued(bool cancel) {
    if (queued_.empty()) return;
    const FuzzQueued queued = queued_.front();
    queued_.erase(queued_.begin());
    if (!cancel) {
      for (const Core::Range& range : queued.ranges) memory_.overwrite(range);
      const std::uint64_t ticket = launch(rng_.below(8), queued.ranges);
      driver_.core().launches().begin(queued.expected);
      for (const Core::Range& range : queued.ranges) {
        if (rng_.chance(1, 2)) memory_.access(range, range.overwritten || rng_.chance(1, 3));
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
    history_.add("retire(%" PRIu64 ")", running_[which]);
    driver_.core().launches().retire(running_[which]);
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(which));
  }

  // Some iterations that do the same: parameters that stay, activations that come and go.
  void train() {
    const std::size_t parameters = std::min<std::size_t>(model_.allocations().size(), rng_.between(1, 6));
    if (parameters == 0) return;
    const auto begin = model_.allocations().begin();
    const std::vector<FuzzModel::Allocation> kept(begin, begin + static_cast<std::ptrdiff_t>(parameters));
    const std::uint64_t bytes = memory_.random_size() % (scenario_.frames * kBlockBytes / 4) + 1;
    const std::uint64_t iterations = rng_.between(2, 5);
    history_.add("train(%zu parameters, %" PRIu64 " iterations)", parameters, iterations);
    const bool backward = rng_.chance(1, 2);
    for (std::uint64_t iteration = 0; iteration < iterations; ++iteration) {
      if (backward) train_both_ways(kept, bytes);
      for (std::size_t layer = 0; !backward && layer < kept.size(); ++layer) {
        const bool made = memory_.allocate(bytes);
        std::vector<Core::Range> ranges{{kept[layer].offset, kept[layer].bytes, kept[layer].offset, true}};
        if (made) {
          const FuzzModel::Allocation& activation = model_.allocations().back();
          ranges.push_back({activation.offset, activation.bytes, activation.offset, true});
        }
        ranges.back().written = rng_.chance(3, 4);  // what a launch declares to write is sometimes wrong
        const std::uint64_t ticket = launch(100 + layer, ranges);
        memory_.access(ranges.front(), rng_.chance(1, 3));
        memory_.access(ranges.back(), true);
        driver_.core().launches().retire(ticket);
        if (made) memory_.free_one(model_.allocations().size() - 1);
      }
      driver_.core().launches().step();
      driver_.pump();
      driver_.validate();
    }
  }

  // What an earlier run is said to have done with what is mapped now, or with more of it.
  void foretell() {
    FilePass pass;
    for (const FuzzModel::Allocation& each : model_.allocations()) {
      if (each.kind != FuzzModel::Kind::kMapped) continue;
      const BlockRange blocks = driver_.core().blocks_of(each.offset, each.bytes);
      const FilePlace place = driver_.core().files().place_of(blocks.first);
      const auto more = static_cast<std::uint32_t>(rng_.chance(1, 4) ? rng_.below(9) : 0);
      pass.launches.push_back({rng_.below(8), rng_.below(1000), static_cast<std::uint32_t>(pass.uses.size()), 1});
      pass.uses.push_back({{place.file, place.offset, each.bytes}, more, blocks.count});
    }
    history_.add("foretell(%zu launches)", pass.launches.size());
    driver_.core().launches().earlier_run().expect(std::move(pass));
  }

  bool running() const { return !running_.empty(); }

  // What runs, and then what is queued.
  void finish() {
    while (!running_.empty()) retire();
    while (!queued_.empty()) run_queued(false);
  }

 private:
  static constexpr std::size_t kRunningMax = 3;
  static constexpr std::size_t kQueuedMax = 8;
  static constexpr std::uint32_t kBlocksMax = 64;  // the most frames there are

  std::uint64_t launch(std::uint64_t op, const std::vector<Core::Range>& ranges) {
    history_.add("announce(%" PRIu64 ", %zu ranges, first %" PRIu64 " + %" PRIu64 ")", op, ranges.size(),
                 ranges.front().offset, ranges.front().bytes);
    // Until flash has grown nothing may be able to leave; then it is a fault that waits.
    const bool calm = scenario_.steady && running_.empty() && driver_.memory().pinned() == 0 &&
                      driver_.core().engine().idle() && driver_.core().extents().free() > kBlocksMax;
    const std::uint64_t ticket = driver_.announce(op, ranges);
    if (calm) check_complete(ranges);
    return ticket;
  }

  // Where nothing goes wrong and there is room, a launch that may start has what it announced. (A policy that does not
  // listen leaves it to faults.)
  void check_complete(const std::vector<Core::Range>& ranges) {
    const Core& core = driver_.core();
    std::uint32_t needed = 0;
    for (const Core::Range& range : ranges) needed += core.blocks_of(range.offset, range.bytes).count;
    if (!core.policy().listens() || needed > driver_.memory().frames_limit() / 2) return;
    for (const Core::Range& range : ranges) {
      const BlockRange blocks = core.blocks_of(range.offset, range.bytes);
      for (BlockIndex i = blocks.first; i != blocks.end(); i = i.next()) EBB_CHECK(driver_.memory().present(i));
    }
  }

  // Forward the activations are kept, backward they are used in the opposite order and freed; sometimes the program
  // does something else in between.
  void train_both_ways(const std::vector<FuzzModel::Allocation>& kept, std::uint64_t bytes) {
    std::vector<FuzzModel::Allocation> activations;
    for (std::size_t layer = 0; layer < kept.size(); ++layer) {
      if (!memory_.allocate(bytes)) break;
      activations.push_back(model_.allocations().back());
      pass(200 + layer, kept[layer], activations.back(), true);
    }
    if (rng_.chance(1, 16)) memory_.access(rng_.chance(1, 2));
    for (std::size_t layer = activations.size(); layer-- > 0;) {
      pass(300 + layer, kept[layer], activations[layer], false);
      const auto& all = model_.allocations();
      const auto found = std::find_if(all.begin(), all.end(), [&](const FuzzModel::Allocation& allocation) {
        return allocation.offset == activations[layer].offset;
      });
      memory_.free_one(static_cast<std::size_t>(found - all.begin()));
    }
  }

  void pass(std::uint64_t op, const FuzzModel::Allocation& weight, const FuzzModel::Allocation& activation, bool make) {
    const std::vector<Core::Range> ranges{{weight.offset, weight.bytes, weight.offset, true, 0, !make},
                                          {activation.offset, activation.bytes, activation.offset, true, 0, make}};
    const std::uint64_t ticket = launch(op, ranges);
    memory_.access(ranges.front(), !make);
    memory_.access(ranges.back(), make);
    driver_.core().launches().retire(ticket);
    driver_.core().launches().ran(1000);
  }

  FuzzMemory& memory_;
  std::vector<std::uint64_t> running_;
};

}  // namespace ebb
