// Cleanings: what is written out while it stays, at a time when its lane would stand idle, so that it can leave without
// a write when memory is short. Worth while for content that is used for a while before it leaves: weights, which the
// optimizer made at the end of an iteration and which leave in the forward pass of the next, when activations need the
// lane out. A runtime that keeps clean copies below needs to write each content once, whenever that is.
//
// Which launches write is known as far as they declare it. Content that changes between its cleaning and its leaving is
// written again: a wrong guess costs time.
//
// make_cleanings() is a pure function. A CleaningQueue is owned by a policy; its next() never allocates.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/tier.h"
#include "plan/drafting/absence.h"
#include "plan/drafting/pieces.h"
#include "plan/policy.h"
#include "plan/recording.h"

namespace ebb {

// Between two uses of a tensor, some of its blocks may be written out.
struct Cleaning {
  std::uint32_t use = 0;          // index in the recording of the first of them
  std::uint32_t first_block = 0;  // relative to the tensor's first
  std::uint32_t blocks = 0;
  Tier tier = Tier::kFlash;
  std::uint64_t until = 0;        // it is to begin before this event; from size() on: in the next iteration
  std::uint64_t leaves = 0;       // the event after which they leave, counted likewise
  Recording::Position after = 0;  // the event of the use
  std::uint32_t absence = 0;      // index of the one that begins when they leave
};

// In the order of their uses. `absences`: in the order of their touches; what of them is unwritten is filled in.
// `start_ns`: of every event, over two iterations. `block_ns`: of one transfer, by tier below.
std::vector<Cleaning> make_cleanings(const Recording& recording, const Pieces& pieces, std::span<PieceAbsence> absences,
                                     std::span<const double> start_ns, const std::array<double, kTiersBelow>& block_ns);

class CleaningQueue {
 public:
  void clear();
  // Of those that were to begin before this event none has a chance any more.
  void forget_before(std::uint64_t event);
  void cover(std::uint32_t blocks) { cleaned_for_.resize(blocks, 0); }
  // The use that it follows has been made, of a tensor that has these blocks. `base`: where the events begin that it
  // counts from.
  void add(const Cleaning& cleaning, BlockRange tensor, std::uint64_t base);
  // The next block to clean at event `now`, of those that leave first; not one used at `pinned_from` or later, nor one
  // that is needed, according to `next_use`, before its cleaning was to be over.
  template <typename NextUse>
  BlockIndex next(const PageTable& table, Tier below, std::uint64_t now, std::uint64_t pinned_from,
                  const NextUse& next_use) {
    auto& queue = queues_[index_below(below)];
    while (!queue.empty()) {
      Entry& entry = queue.front();
      while (entry.until >= now && entry.done < entry.blocks.count) {
        const BlockIndex index(entry.blocks.first.value() + entry.done);
        const Block& block = table[index];
        const bool stays = block.state == BlockState::kResident && block.queue == 0 && block.live > 0;
        if (stays && block.last_use >= pinned_from) return BlockIndex::none();
        ++entry.done;
        if (!stays || block.prefetched || cleaned_for_[index.value()] == entry.leaves) continue;
        if (next_use(index) < entry.until) continue;  // another tensor shares it
        cleaned_for_[index.value()] = entry.leaves;
        return index;
      }
      pop(queue);
    }
    return BlockIndex::none();
  }

 private:
  struct Entry {
    std::uint64_t leaves = 0;
    std::uint64_t until = 0;
    BlockRange blocks;
    std::uint32_t done = 0;
  };
  static void pop(std::vector<Entry>& queue);

  std::array<std::vector<Entry>, kTiersBelow> queues_;  // heaps by tier below: what leaves first on top
  std::vector<std::uint64_t> cleaned_for_;              // by block: the leaving that it was cleaned for last
};

}  // namespace ebb
