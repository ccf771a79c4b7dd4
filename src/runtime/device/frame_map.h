// FrameMap: which frame of a device lies under which block, and who still uses it. The core's backing memory on a
// device without page faults: attach() and detach() only note what is wanted; what is mapped follows, before a launch
// that needs it at the latest.
//
// An address keeps its old frame until the work that used it there is over, while the frame may already serve another
// block: it is mapped at both. Only an address that is wanted again with another frame has to wait for that.
//
// A driver takes 50 to 1000 microseconds to change a mapping, so what nobody waits for yet is changed beside the
// program: begin_changes() names it, under the lock; make() does it, without; end_changes() says that it is done.
//
// Owned by a GpuRuntime, under its lock but for make(). Invariants: a block whose mapping is not wanted any more is in
// leaving_ or changing; one that is changing is neither mapped nor unmapped by anybody else.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "base/index.h"
#include "port/backing_memory.h"
#include "port/gpu_device.h"
#include "runtime/device/timelines.h"

namespace ebb {

class FrameMap final : public BackingMemory {
 public:
  // strict: nothing is mapped but what a launch announces, for as long as it runs.
  FrameMap(GpuDevice& device, Timelines& timelines, std::uint32_t blocks, std::uint32_t frames, bool strict);

  // BackingMemory, for the core. There is no home that could be looked at, nobody who waits at an address.
  Status create(FrameIndex frame) override;
  void destroy(FrameIndex frame) override;
  void attach(FrameIndex frame, BlockIndex block) override;
  Status detach(BlockIndex block, FrameIndex frame) override;
  void wake(BlockIndex) override {}
  void fail(BlockIndex) override {}
  void forget_failure(BlockIndex) override {}
  std::span<std::byte> home(FrameIndex) override { return {}; }

  // What has to be over before a launch may use a frame: copies, and the launches of whom it served before.
  const Fences& before(FrameIndex frame) const { return frames_[frame.value()].before; }
  // And before it may be copied or given to another block: all of them.
  Fences everything(FrameIndex frame) const;
  void copied(FrameIndex frame, std::uint32_t line, std::uint64_t mark) {
    frames_[frame.value()].before.add(line, mark);
  }
  void used(FrameIndex frame, std::uint32_t line, std::uint64_t mark) { frames_[frame.value()].uses.add(line, mark); }
  // A new allocation in a block that stays: its launches wait for those of the old one.
  void renew(FrameIndex frame);

  // Maps what these blocks need, waiting here for an address that is still in use. kBusy: one of them is changing.
  // kNoMemory, kIoError.
  Status apply(std::span<const BlockIndex> needed);
  // Whether end_changes() has to come before one of these can be mapped.
  bool changing(std::span<const BlockIndex> blocks) const;
  // The launches that used these are over: takes the mappings away (strict).
  Status unmap(std::span<const BlockIndex> blocks);

  // Mappings that are wanted and that nothing is in the way of, and those that are not, whose users are over.
  struct Change {
    BlockIndex block;
    FrameIndex frame;
    bool mapped = false;
  };
  struct Changes {
    std::vector<Change> arrivals;
    std::vector<Change> departures;
    bool empty() const { return arrivals.empty() && departures.empty(); }
  };
  void begin_changes(Changes& changes);
  // By any thread, one at a time.
  void make(Changes& changes) const;
  void end_changes(Changes& changes);
  // Whether begin_changes() may find something: now, or when the device has gone on.
  bool arriving() const { return !arriving_.empty(); }
  bool leaving() const { return !leaving_.empty(); }

  // Blocks that have been mapped, and the time for which launches have waited for mappings to be changed.
  std::uint64_t mappings() const { return mappings_; }
  std::uint64_t mapping_ns() const { return mapping_ns_; }
  void waited(std::uint64_t ns) { mapping_ns_ += ns; }

 private:
  struct Frame {
    Fences before;
    Fences uses;
    bool changing = false;
    bool doomed = false;  // to be destroyed as soon as nothing of it is changing
  };
  struct Place {
    FrameIndex mapped;
    FrameIndex wanted;
    std::uint32_t departures = 0;  // detached so many times: an older departure means nothing
    bool changing = false;
  };
  struct Departure {
    BlockIndex block;
    FrameIndex frame;
    std::uint32_t number = 0;
    Fences until;
  };

  bool stands(const Departure& departure) const;
  void let_leave(BlockIndex block);
  Status clear(BlockIndex block);
  Status map_all(std::vector<BlockIndex>& blocks);
  Status unmap_all(std::vector<BlockIndex>& blocks);

  GpuDevice& device_;
  Timelines& timelines_;
  bool strict_;
  std::vector<Frame> frames_;
  std::vector<Place> places_;
  std::deque<Departure> leaving_;     // oldest first
  std::vector<BlockIndex> arriving_;  // attached, and perhaps not yet mapped
  std::uint64_t mappings_ = 0;
  std::uint64_t mapping_ns_ = 0;
};

}  // namespace ebb
