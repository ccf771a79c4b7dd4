// Policy: what should move. It is told what the program does and answers two questions: which resident block is worth
// least, and which absent block should come next. It moves nothing itself, sees no clock and no device, and is the same
// in the simulator and in a real run. Nothing depends on its being right: a wrong answer costs time only.
//
// Owned by the core, under the runtime's lock. keep(), destination(), ahead(), behind(), clean() and budget() may run
// on the fault thread and never allocate; the others are called by the program's own threads.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string_view>

#include "base/index.h"
#include "space/page_table.h"

namespace ebb {

class Guide;
class Recording;

// From here on serial numbers name what was there before the program's first iteration and outlasts each of them,
// whenever it is first heard of: parts of mapped files.
inline constexpr std::uint64_t kLastingSerials = 1ull << 62;

// What a launch touches of one allocation: its blocks, and where in the allocation it starts.
struct Touch {
  std::uint64_t allocation = 0;  // serial number, unique for the life of the process
  std::uint64_t bytes = 0;
  BlockRange blocks;
  bool written = false;  // as far as is known: what to record, and what can be cleaned
};

// Whether a launch of so many blocks is more than memory can hold at once, and what it needs comes while it runs.
inline bool exceeds_memory(std::uint64_t blocks, std::uint32_t frames) { return blocks > frames - frames / 4; }

// What lies below the device tier, and how long a block takes from there.
struct Pace {
  std::uint32_t host_blocks = 0;  // 0: no host tier
  double host_in_ns = 0;          // and to get there
  bool clean_host = true;         // what leaves for host memory with a good copy there needs no write
  double flash_in_ns = 0;
  double flash_out_ns = 0;              // to get there; 0: as long
  double flash_both_ns = 0;             // what a block, either way, takes while both are under way; 0: no longer
  double toll_ns = 0;                   // that launches take longer for each block that is moved beside them
  std::uint32_t frames_in_transit = 0;  // kept free, and for blocks on their way
};

class Policy {
 public:
  virtual ~Policy() = default;

  virtual std::string_view name() const = 0;
  // Whether launches are listened to at all; if not, blocks come when touched and leave in the order they came.
  virtual bool listens() const = 0;

  // What there is: told at the start, and when small allocations take or give back their share.
  virtual void budget(std::uint64_t /*block_bytes*/, std::uint32_t /*frames*/) {}
  // What the program is going to do, told before anything else; false: of no use to this policy.
  virtual bool take_guide(std::unique_ptr<Guide> guide);
  // Told before the program begins, and between iterations when more is known.
  virtual void set_pace(const Pace& pace) { pace_ = pace; }
  virtual void allocated(std::uint64_t /*allocation*/, std::uint64_t /*bytes*/, BlockRange /*blocks*/) {}
  // Something lasting, before the first launch that uses it; freed() ends it.
  virtual void mapped(std::uint64_t /*allocation*/, std::uint64_t /*bytes*/, BlockRange /*blocks*/) {}
  virtual void freed(std::uint64_t /*allocation*/) {}
  virtual void launched(std::uint64_t /*op*/, std::span<const Touch> /*touches*/) {}
  // The launch of this operator that is about to be told uses these blocks, too, which are another few each time.
  virtual void used_at_random(std::uint64_t /*op*/, BlockRange /*blocks*/) {}
  // From the start of the launch announced last to now the program ran for this long, without the time that it waited.
  virtual void ran(std::uint64_t /*ns*/) {}
  // A block that was absent, or held back, is touched. May run on the fault thread and never allocates.
  virtual void touched(BlockIndex /*block*/, std::uint64_t /*stamp*/) {}
  virtual void step() {}
  // An iteration of an earlier run of the program, on lasting allocations alone: the next step() begins one like it.
  virtual void foretell(const Recording& /*iteration*/) {}
  // The iteration that ended last; null: none is kept.
  virtual const Recording* latest() const { return nullptr; }
  // A block has come to be in memory. May run on the fault thread and never allocates.
  virtual void arrived(BlockIndex /*block*/) {}

  // What a resident block is worth: of those with the least, the first in order is evicted.
  virtual std::uint64_t keep(BlockIndex, const Block& block) const { return block.last_use; }
  // Whether nothing will read what a resident block holds before it is overwritten: it need not be written out.
  virtual bool dying(BlockIndex) const { return false; }
  // Changes when blocks may have come to be worth less than they were, other than by leaving.
  virtual std::uint64_t version() const { return 0; }
  // Where a block that leaves should go; the other tier is taken if this one has no room.
  virtual Tier destination(BlockIndex) const { return Tier::kHost; }
  // The next absent block worth fetching from `below` before it is asked for, or none, and what it would be worth on
  // the scale of keep(): only blocks worth less make room for it.
  struct Ahead {
    BlockIndex block;
    std::uint64_t worth = 0;
    bool overwritten = false;  // its content will be overwritten before anything reads it: memory will do
    bool held = false;         // it stays out of reach when it has come, so that its touch is told of
    std::uint32_t spare = 0;   // only if so many frames are free: what is allocated next would take its own again
    std::uint32_t at_once = std::numeric_limits<std::uint32_t>::max();  // while fewer than that are on their way
  };
  virtual Ahead ahead(const PageTable&, Tier /*below*/) { return {}; }
  // The next resident block that should leave for `below` although nobody needs its frame yet, or none; not one that
  // was used at `pinned_from` or later. A block is named once, until it has been used again.
  virtual BlockIndex behind(const PageTable&, Tier /*below*/, std::uint64_t /*pinned_from*/) {
    return BlockIndex::none();
  }
  // The next resident block worth writing to `below` while its lane has nothing else to do, although it stays: it will
  // leave before it changes, and then without a write; or none. Likewise named once, and not one in use.
  virtual BlockIndex clean(const PageTable&, Tier /*below*/, std::uint64_t /*pinned_from*/) {
    return BlockIndex::none();
  }

  virtual std::uint64_t deviations() const { return 0; }
  virtual std::uint64_t guided() const { return 0; }  // launches that a guide foretold

 protected:
  const Pace& pace() const { return pace_; }

 private:
  Pace pace_;
};

// Of ours; null for any other name. With those of the published systems: rivals/policies.h.
std::unique_ptr<Policy> make_policy(std::string_view name);

}  // namespace ebb
