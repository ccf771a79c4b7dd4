// Engine: makes blocks move. A deterministic state machine without clock, thread or I/O of its own: it is told of
// wants, faults and completions, calls the memory port at once, and leaves flash requests for whoever drives it to
// take.
//
// To evict: take the frame home (from then on a touch faults), write it from there, free it. A touch in between is a
// rescue: the same frame returns, at once if the write has not been submitted, otherwise after it. A write that fails
// puts the frame back under its block: nothing is lost. A block is attached only after its checksum has been verified.
//
// Owned by the core, under the runtime's lock. Never allocates after construction (the fault thread runs it).
// Invariant: a frame is free, under a block, or in a transfer; every transfer has one request outstanding.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "alloc/extent_pool.h"
#include "alloc/frame_pool.h"
#include "base/check.h"
#include "base/index.h"
#include "move/read_ahead.h"
#include "move/transfer.h"
#include "move/victims.h"
#include "move/want_queue.h"
#include "plan/policy.h"
#include "port/backing_memory.h"
#include "port/flash_queue.h"
#include "space/page_table.h"

namespace ebb {

class Engine {
 public:
  struct Limits {
    std::uint32_t in_flight = 32;  // transfers at once
    std::uint32_t reserve = 0;     // frames kept free, so that nobody waits for a write
    std::uint32_t read_ahead = 0;  // blocks ahead of a run of faults (read_ahead.h); 0: none, ever
    std::uint32_t lane = 16;       // of the transfers, those in one lane that nobody waits for
    bool keep_pinned = false;      // blocks that are pinned, by pin() then, stay, whoever else wants room
    bool clean_host = true;        // what leaves for host memory is compared with its copy there: a good one saves it
    bool clean_to_host = true;     // and is written there ahead, where a lane that has nothing to do can be told
  };
  struct Counters {
    std::uint64_t fetched = 0, evicted = 0, clean = 0, prefetched = 0, wasted = 0;  // blocks
    std::uint64_t rescues = 0, io_errors = 0, corrupt = 0, lost = 0;
    std::uint64_t rewritten = 0;  // blocks of files that the program wrote to, and that left their file for it
  };

  Engine(PageTable& table, FramePool& frames, ExtentPool& extents, BackingMemory& memory, Policy& policy,
         const Limits& limits);

  // The number of frames has changed: in flight, lanes and reserves follow, at most those that it was made with.
  void set_limits(const Limits& limits) {
    limits_ = limits;
    transfers_.set_most(limits.in_flight);
  }

  // An allocation takes, or leaves, these blocks. A block that nobody has left loses its content.
  void retain(BlockRange blocks);
  void release(BlockRange blocks);
  // Attaches frames to the untouched blocks of a range, as far as frames are to be had without waiting.
  void populate(BlockRange blocks);
  // What a block was last used at is earlier than was thought: it may leave.
  void age(BlockIndex block, std::uint64_t last_use);
  // Wants a block in memory, in turn, in place of blocks used less recently than Block::last_use says of it. Never
  // blocks; pending() tells whether it is still to come.
  void want(BlockIndex block);
  bool pending(BlockIndex block) const;
  // The program waits for this block: once it is there it stays, as one that was faulted for.
  void wait_for(BlockIndex block) { victims_.set_faulted(block); }
  // Keeps a block that is on its way, or resident, from being resident until it is touched: fault() tells of it.
  void hold(BlockIndex block);
  // Ends that, touched or not.
  void let_go(BlockIndex block);
  // Its content will be overwritten before anything reads it: what flash has of an absent block need not come back.
  void forsake(BlockIndex block);
  // Likewise, and if it is in memory it need not be until it is touched.
  void give_up(BlockIndex block);
  // Somebody touched an absent block and waits. It comes first, and may displace blocks in use.
  void fault(BlockIndex block);
  // What is lost by it fails with the next pump(): until then the driver can say why.
  void complete(const FlashCompletion& completion);
  // Serves who waits, fetches ahead, restores the reserve. Call after anything above.
  void pump();

  // Takes requests for flash, reads first, because somebody waits for them; returns how many. Each is to be submitted
  // and its completion brought back.
  std::size_t take_requests(std::span<FlashRequest> requests);
  bool has_requests() const { return !requests_.empty(); }
  bool idle() const { return transfers_.in_flight() == 0 && urgent_.empty() && wanted_.empty() && frozen_ == 0; }
  std::uint32_t in_flight() const { return transfers_.in_flight(); }
  std::uint32_t fetching() const { return in_lane(Lane::kHostIn) + in_lane(Lane::kFlashIn); }
  std::uint32_t writing() const { return in_lane(Lane::kHostOut) + in_lane(Lane::kFlashOut); }

  // While there is something better than blocks in use to take frames from, they are spared; short_of_frames(): one
  // would have had to leave. Who set it then provides frames, or ends it, and calls pump() again.
  void set_spare(bool spare) {
    spare_used_ = spare;
    short_of_frames_ = false;
  }
  bool short_of_frames() const { return short_of_frames_; }
  // Blocks used at or after this stamp belong to running launches and are evicted only for a fault.
  void set_pinned_from(std::uint64_t stamp) { victims_.set_pinned_from(stamp); }
  // A pinned block stays whoever wants room; as often unpinned as pinned. With Limits::keep_pinned these are the blocks
  // in use, elsewhere those that are so besides.
  void pin(BlockIndex block) { ++table_[block].pins; }
  void unpin(BlockIndex block) {
    EBB_CHECK_LT(0u, table_[block].pins);
    if (--table_[block].pins == 0) victims_.note_pins();
  }
  // A fault that can never be served, because no block can leave; none otherwise. fail_starved() gives up on it.
  BlockIndex starved() const { return starved_; }
  void fail_starved();
  // The most recent block found unreadable; none otherwise.
  BlockIndex lost_block() const { return lost_block_; }
  FilePlace lost_place() const { return lost_place_; }  // if it was one in a file

  // For a file that the program maps: an untouched block that nobody else has begins as the copy in the file.
  void map(BlockIndex block, const FilePlace& place);
  // Whatever became of a block since: it begins anew. False while a transfer is under way, or where it cannot leave.
  bool renew(BlockIndex block, const FilePlace& place);

  // For memory that the program has mapped itself. vacate(): blocks that nobody has lose the frames of dead content;
  // kBusy: one is pinned, or a child is owed it. set_outside(): untouched blocks stand for such memory, or no longer.
  // adopt(): what is outside comes under the budget as it is; false while there is no room for it: what makes some has
  // been started, so call again after complete(). disown(): a resident or untouched block's memory is outside again.
  // abandon(): the block's memory, and its content, are gone; false while a transfer is under way.
  Status vacate(BlockRange blocks);
  void set_outside(BlockRange blocks, bool outside);
  bool adopt(BlockIndex block);
  void disown(BlockIndex block);
  bool abandon(BlockIndex block);

  // For a child process (engine_moment.cc). freeze() takes everything that is in memory home, as it is at this moment:
  // each block returns when it has been written for the child, those first that somebody waits for. `stay` gets the
  // blocks that cannot leave their place; they have no copy. written() has the others one by one, as they are done,
  // each with a reference to its extent, or with none where it could not be written; forget_written() when the caller
  // has them. give_up_frozen(): there is no room to write what is left. thaw(): nobody needs it any more.
  struct Written {
    FrameIndex frame;  // that it was in at the moment
    ExtentIndex extent;
  };
  void freeze(std::vector<BlockIndex>& stay);
  std::uint32_t frozen() const { return frozen_; }
  std::uint32_t owed() const { return owed_; }
  std::span<const Written> written() const { return written_; }
  void forget_written() { written_.clear(); }
  void give_up_frozen();
  void thaw() { give_up_frozen(); }

  // Whether a block needs another to leave before it can come.
  bool out_of_frames() const { return frames_.free() + frames_.room() == 0; }
  // Whether evictions stand still for want of extents, and how many more would do.
  bool flash_full() const { return no_room(Tier::kFlash); }
  void extents_added() { no_room(Tier::kFlash) = false; }
  bool flash_failing() const { return write_failures_ >= kWriteFailuresMax; }

  const Counters& counters() const { return counters_; }
  // Touches of what is on flash that went on with none before.
  std::uint64_t scattered() const { return read_ahead_.begun(); }
  std::uint32_t dead_resident() const { return dead_resident_; }
  void validate();

 private:
  // kAwaited: the program waits, as after a fault, but for nothing that it has touched.
  enum class Urgency : std::uint8_t { kFault, kAwaited, kWanted, kAhead };
  static constexpr std::uint8_t kAttemptsMax = 3;
  static constexpr std::uint32_t kWriteFailuresMax = 8;  // in a row: flash is taken to be broken

  void serve_wanted();
  bool serve(BlockIndex block, Urgency urgency);
  FrameIndex acquire(BlockIndex block, Urgency urgency);
  FrameIndex steal_dead();
  void attach(BlockIndex block, FrameIndex frame);
  void start_fetch(BlockIndex block, FrameIndex frame, bool ahead);
  bool evict_least(Urgency urgency, std::uint64_t worth_below);
  bool start_evict(BlockIndex block);
  bool find_extent(BlockIndex block, Transfer& transfer);
  void write_out(const Transfer& transfer);
  bool drop(BlockIndex block);
  Status detach(BlockIndex block);
  void rescue(BlockIndex block);
  void cancel(std::uint32_t token);
  void discard(BlockIndex block);
  void note_dead(BlockIndex block) {
    ++dead_resident_;
    victims_.note_dead(block);
  }
  ExtentIndex take_extent(Tier wanted);
  ExtentIndex take_extent_in(Tier tier);
  void let_go_all();
  void read_ahead(BlockIndex block, bool absent);
  void leave_queues(BlockIndex block);
  void evict_behind(Tier below);
  void fetch_ahead(Tier below);
  void clean_ahead(Tier below);
  bool start_clean(BlockIndex block);
  void write_frozen();
  BlockIndex next_frozen();
  void pay(BlockIndex block, ExtentIndex extent);
  void unfreeze(BlockIndex block);
  void serve_urgent();
  void restore_reserve();
  void empty(BlockIndex block);
  void fail_unread();
  void evicted(std::uint32_t token, const FlashCompletion& completion);
  void evict_failed(std::uint32_t token, Status status);
  void leave_file(std::uint32_t token);
  void keep_in_memory(std::uint32_t token);
  void fetched(std::uint32_t token, const FlashCompletion& completion);
  void submit(std::uint32_t token, bool has_expected, const Digest& expected);
  std::uint32_t begin(const Transfer& transfer);
  Transfer end(std::uint32_t token);
  std::uint32_t& in_lane(const Transfer& transfer);
  std::uint32_t in_lane(Lane lane) const { return in_lanes_[static_cast<std::size_t>(lane)]; }
  void release_extent(ExtentIndex extent);
  void release_orphan(const Transfer& transfer);
  void drop_extent(Block& block);
  bool& no_room(Tier tier) { return no_room_[index_below(tier)]; }
  bool no_room(Tier tier) const { return no_room_[index_below(tier)]; }
  std::uint32_t& spare(Tier tier) { return spare_[index_below(tier)]; }

  PageTable& table_;
  FramePool& frames_;
  ExtentPool& extents_;
  BackingMemory& memory_;
  Policy& policy_;
  Limits limits_;
  Victims victims_;
  ReadAhead read_ahead_;
  TransferTable transfers_;
  WantQueue urgent_;
  WantQueue wanted_;
  std::vector<FlashRequest> requests_;
  std::uint32_t evicting_ = 0;       // transfers whose frame will become free
  std::uint32_t dead_resident_ = 0;  // resident blocks with dead content
  std::uint32_t write_failures_ = 0;
  std::array<bool, kTiersBelow> no_room_{};         // by tier below: evictions there stand still for want of extents
  std::array<std::uint32_t, kTiersBelow> spare_{};  // by tier below: resident blocks with a copy there, or fewer
  std::array<std::uint32_t, kTiersBelow>
      cursor_{};  // by tier below: the frame where the search for such a block goes on
  std::array<std::uint32_t, kLanes> in_lanes_{};
  std::uint32_t frozen_ = 0;  // blocks, and those whose write is under way too
  std::uint32_t owed_ = 0;
  std::uint32_t frozen_cursor_ = 0;  // frames before it are not frozen, unless they are in hurried_
  std::vector<BlockIndex> hurried_;  // the last one first
  std::vector<BlockIndex> unread_;   // lost, and who waits has not been told yet
  std::vector<Written> written_;
  bool spare_used_ = false;
  bool short_of_frames_ = false;
  BlockIndex starved_;
  BlockIndex lost_block_;
  FilePlace lost_place_;
  Counters counters_;
};

}  // namespace ebb
