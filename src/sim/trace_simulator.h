// TraceSimulator: runs a trace on a simulated machine with the real core: the same page table, policies and transfer
// engine that run programs, on lanes in virtual time (lane_queue.h). Nothing but time is simulated.
//
// Timing::kStrict: a launch starts when its last block has arrived. Timing::kArtifact, to compare with the published
// simulator of G10: a launch runs while it waits for its late blocks, blocks that nobody had asked for are charged at
// the bandwidth of their lane, every eviction is a full write, and a policy that does not listen to the program is not
// told of frees either: dead tensors are written out, and read back when the next iteration makes them anew.
//
// The host launches ahead of the device as far as it can: one launch after the other, each in the time that the machine
// says. It stops where the program waits for a result (`sync`), and the device then waits for the host. Either way a
// launch is announced when the device comes to it, so that running ahead hides the host's time and nothing else.
//
// A trace of one iteration is repeated; a sequence is run once, as it was. Either way the core is told of every end of
// an iteration, as in a real run.
//
// One thread, deterministic; a simulator runs one trace once. trace_simulator.cc has the course of iterations and of
// time, trace_simulator_launch.cc what one launch does.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "core/core.h"
#include "ebb/options.h"
#include "plan/machine.h"
#include "plan/trace.h"
#include "port/still_memory.h"
#include "sim/event_queue.h"
#include "sim/lane_queue.h"

namespace ebb {

class TraceSimulator {
 public:
  static constexpr std::uint32_t kDeviceBlocksMin = Core::kFramesMin;
  // As little memory as a program can be given.
  static constexpr std::uint64_t kBudgetBytesMin = Core::budget_bytes_min(ebb::Options::usual_block_bytes(0));
  enum class Timing : std::uint8_t { kStrict, kArtifact };
  struct Options {
    Machine machine;
    std::uint64_t block_bytes = 2ull << 20;
    Timing timing = Timing::kStrict;
    std::uint32_t iterations = 3;  // of a trace that is repeated; a sequence has its own
    bool guided = false;           // the policy is given the trace as a guide (plan/guide), if it takes one
    // Multiplies the duration of a launch in one of the iterations; null: as in the trace.
    std::function<double(std::uint32_t iteration, std::size_t launch)> vary;
  };
  enum class Cause : std::uint8_t {
    kFault,    // touched without having been asked for
    kFetch,    // asked for when the launch needed it: not fetched ahead
    kLate,     // fetched ahead, but not early enough
    kNoFrame,  // no frame was free: something had to leave first
    kHost,     // the host had not launched it yet
  };
  static constexpr std::size_t kCauses = 5;
  struct Iteration {
    std::uint64_t ns = 0;
    std::uint64_t ideal_ns = 0;
    std::array<std::uint64_t, kCauses> stall_ns{};
    std::array<LaneQueue::LaneUse, kLanes> lanes{};
    std::uint64_t faults = 0;
    std::uint64_t wasted_blocks = 0;

    Iteration& operator+=(const Iteration& other);
  };

  // Throws Error if the trace cannot run on this machine: a launch without a duration, nowhere to put what does not
  // fit.
  TraceSimulator(const Trace& trace, std::unique_ptr<Policy> policy, const Options& options);

  // One result an iteration; of a sequence, for each of its own. The first starts with the persistent tensors made, in
  // the order of their declaration. Those that are mapped lie in one file, one behind the other in that order, and
  // nothing of it has been read.
  std::vector<Iteration> run();
  const Core& core() const { return core_; }

 private:
  static constexpr std::uint64_t kForever = std::numeric_limits<std::uint64_t>::max();

  // Frames without bytes.
  class Memory final : public StillMemory {
   public:
    std::span<std::byte> home(FrameIndex) override { return {}; }
  };
  struct Placed {
    std::uint64_t offset = 0;
    bool live = false;             // of a first piece
    Trace::TensorIndex first = 0;  // piece of the same allocation
  };
  // Blocks that a launch missed when it was announced, by where they were.
  struct Missed {
    std::uint64_t host = 0, flash = 0, fresh = 0;
  };

  void map_file();
  void make_persistent();
  void join_pieces();
  // Told the first piece of an allocation, of all of it.
  void allocate(Trace::TensorIndex tensor);
  void free(Trace::TensorIndex tensor);
  void announce_use(Trace::TensorIndex tensor, bool written);
  Iteration iterate(Trace::LaunchIndex first, Trace::LaunchIndex end);
  void free_before(Trace::LaunchIndex launch);
  void allocate_before(Trace::LaunchIndex launch);
  void launch(Trace::LaunchIndex index, Iteration& result);
  void wait_for_host(Iteration& result);
  void wait_for(std::uint64_t ticket, Iteration& result);
  void touch_all(const Trace::Launch& launch, Iteration& result);
  void touch(BlockRange blocks, Iteration& result);
  void write_all(const Trace::Launch& launch);
  Missed count_missing() const;
  std::uint64_t surcharge_ns(const Missed& missed) const;
  std::uint64_t duration_ns(Trace::LaunchIndex index) const;
  bool forgets_frees() const { return options_.timing == Timing::kArtifact && !core_.policy().listens(); }
  void note_late();
  bool pending(BlockIndex block) const;
  Cause cause(std::span<const BlockIndex> missing) const;
  void flow();
  bool advance(std::uint64_t until_ns);
  BlockRange blocks_of(Trace::TensorIndex tensor) const;

  const Trace& trace_;
  Options options_;
  std::vector<std::vector<Trace::TensorIndex>> born_;  // by launch; one more for what is freed after the last
  std::vector<std::vector<Trace::TensorIndex>> dead_;
  std::vector<Placed> placed_;
  std::uint32_t iteration_ = 0;
  Memory memory_;
  VirtualClock clock_;
  std::uint64_t transfers_ = 0;  // that have completed
  std::uint64_t host_ns_ = 0;    // when the host has launched what it has come to
  Core::Config config_;
  Core core_;
  FrameVersions versions_;
  LaneQueue lanes_;
  std::vector<Core::Range> ranges_;
  std::vector<BlockIndex> missing_;  // of the launch that waits
  std::vector<BlockIndex> late_;     // of those, in order: on their way before it asked
  std::vector<BlockIndex> faulted_;
};

}  // namespace ebb
