// SimMemory: backing memory of the simulated world. Frames are real small buffers; attaching one moves the right to
// look at it from home to the space. It checks what a real machine would punish or, worse, would not: a frame in two
// places, a transfer into a frame that has left, memory beyond the budget.
//
// It also plays the kernel's part for the program: who touches an absent block waits until the block is attached, woken
// or failed; pinned blocks cannot be detached. One thread; deterministic for a seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/index.h"
#include "base/rng.h"
#include "port/backing_memory.h"
#include "sim/event_log.h"
#include "sim/fault_plan.h"

namespace ebb {

class SimMemory final : public BackingMemory {
 public:
  struct Config {
    std::size_t block_bytes = 64;
    std::uint32_t frames = 0;
    std::uint32_t blocks = 0;
    std::uint64_t seed = 0;
  };
  struct Counters {
    std::uint64_t created = 0, destroyed = 0, attached = 0, detached = 0, busy = 0, woken = 0, failed = 0;
    std::uint64_t frames_short = 0;  // creations refused because the system has no more
    FaultCounts injected;
  };

  SimMemory(const Config& config, const FaultPlan& plan, NthFault& nth, EventLog& log);

  Status create(FrameIndex frame) override;
  void destroy(FrameIndex frame) override;
  void attach(FrameIndex frame, BlockIndex block) override;
  Status detach(BlockIndex block, FrameIndex frame) override;
  void wake(BlockIndex block) override;
  void fail(BlockIndex block) override;
  void forget_failure(BlockIndex block) override;
  std::span<std::byte> home(FrameIndex frame) override;

  // The program's side.
  bool present(BlockIndex block) const { return blocks_[block.value()].frame.valid(); }
  bool failed(BlockIndex block) const { return blocks_[block.value()].failed; }
  std::span<std::byte> bytes(BlockIndex block);
  // A thread touches an absent block and waits.
  void await(BlockIndex block);
  // The same, told of when it is there already.
  void await_late(BlockIndex block);
  bool awaited(BlockIndex block) const { return blocks_[block.value()].awaited; }
  std::uint32_t waiting() const { return waiting_; }
  // Memory of the program's own, with this content, becomes that of a frame that has none, under its block; it becomes
  // the program's again, which then has the content; its owner unmaps it.
  void adopt(FrameIndex frame, BlockIndex block, std::span<const std::byte> content);
  void disown(BlockIndex block, std::span<std::byte> content);
  void unmap(BlockIndex block);
  void pin(BlockIndex block);
  void unpin_all();
  bool pinned(BlockIndex block) const { return blocks_[block.value()].pinned; }
  std::uint32_t pinned() const { return pinned_; }

  // The device's side: a frame at home belongs to a transfer and stays where it is. Other buffers are nobody's concern.
  void begin_transfer(std::span<const std::byte> bytes);
  void end_transfer(std::span<const std::byte> bytes);

  // As SimFlash::reseed().
  void reseed(std::uint64_t seed) { rng_ = Rng(seed); }

  // The budget as the core should see it: creating a frame beyond it is a bug.
  void set_frames_limit(std::uint32_t limit) { frames_limit_ = limit; }
  std::uint32_t frames_limit() const { return frames_limit_; }
  // Whether the system has refused memory since a frame was last created.
  bool refusing() const { return refusing_; }
  std::uint32_t created() const { return created_; }
  const Counters& counters() const { return counters_; }

 private:
  struct Frame {
    bool exists = false;
    BlockIndex block;  // none: at home
    std::uint32_t transfers = 0;
  };
  struct SimBlock {
    FrameIndex frame;
    bool failed = false;
    bool awaited = false;
    bool pinned = false;
  };

  std::span<std::byte> buffer(FrameIndex frame);
  Frame* frame_of(std::span<const std::byte> bytes);  // null: a buffer
  void begin_wait(SimBlock& block);
  void end_wait(SimBlock& block);

  Config config_;
  const FaultPlan& plan_;
  NthFault& nth_;
  EventLog& log_;
  Rng rng_;
  std::vector<std::byte> bytes_;
  std::vector<Frame> frames_;
  std::vector<SimBlock> blocks_;
  std::uint32_t frames_limit_;
  std::uint32_t created_ = 0;
  std::uint32_t waiting_ = 0;
  std::uint32_t pinned_ = 0;
  bool refusing_ = false;
  Counters counters_;
};

}  // namespace ebb
