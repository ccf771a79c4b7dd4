// SimFlash: a flash device in virtual time. A request takes its turn on the lane of its direction (bandwidth), then a
// latency with some jitter, so requests overtake each other as they do on a real device; wait() jumps to the next one
// that is due. The faults of a FaultPlan are drawn when a request is submitted and happen when it completes.
//
// What is wrong with an extent is known: damage() names the fault that took its content away. Bits rot, and writes go
// astray, only where no transfer is under way: those have an order then.
//
// What a real device may do with a buffer, this one does: a read fills it with noise long before it is done, a failed
// write leaves noise on the device, and a buffer that changes while it is being written ends the run. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "port/raw_flash.h"
#include "sim/event_log.h"
#include "sim/event_queue.h"
#include "sim/fault_plan.h"
#include "sim/sim_memory.h"

namespace ebb {

class SimFlash final : public RawFlash {
 public:
  struct Config {
    std::size_t block_bytes = 64;
    std::uint32_t depth = 32;
    std::uint64_t seed = 0;
    std::uint64_t latency_ns = 80'000;
    std::uint64_t jitter_ns = 40'000;
    std::uint64_t read_ns_per_block = 10'000;
    std::uint64_t write_ns_per_block = 25'000;
  };
  struct Counters {
    std::uint64_t reads = 0, writes = 0, errors = 0, corruptions = 0;
    std::uint64_t full = 0;  // reserve() refused
    FaultCounts injected;
  };

  SimFlash(const Config& config, const FaultPlan& plan, NthFault& nth, SimMemory& memory, VirtualClock& clock,
           EventLog& log);
  ~SimFlash() override;

  std::uint32_t depth() const override { return config_.depth; }
  void submit(const RawRequest& request) override;
  std::size_t poll(std::span<RawCompletion> completions) override;
  // Virtual time jumps to the next completion; without one in flight nothing happens.
  void wait(std::chrono::nanoseconds timeout) override;
  void wake() override {}
  Status reserve(std::uint64_t bytes) override;
  Status read_now(const RawRequest& request) override;

  // What is in a file of the program's, for ever: noise that follows from its number.
  static void fill_from_file(const FilePlace& place, std::span<std::byte> bytes);

  // What keeps this extent from being read back; none if nothing does.
  std::optional<Fault> damage(std::uint32_t extent) const;
  std::optional<Fault> damage(const FilePlace& place) const;
  // The faults to come are drawn from this: what a fuzzer's operation does then depends on itself, and less on those
  // before it.
  void reseed(std::uint64_t seed) { rng_ = Rng(seed); }
  // Until when it has stood still, or will.
  std::uint64_t stalled_until_ns() const { return stalled_until_ns_; }
  std::uint32_t in_flight() const { return static_cast<std::uint32_t>(pending_.size()); }
  const Counters& counters() const { return counters_; }

 private:
  struct Stored {
    std::vector<std::byte> bytes;
    std::vector<std::byte> before;  // what was there until the last write
    bool written = false;
    bool unreadable = false;  // for ever
    bool unwritable = false;  // for ever
    bool refused = false;     // a write to it has failed: nobody should try again
    std::optional<Fault> damage;
    std::uint32_t readers = 0;  // in flight
    bool writer = false;

    bool idle() const { return readers == 0 && !writer; }
  };
  struct Pending {
    RawRequest request;
    Status status = Status::kOk;
    std::optional<Fault> fault;   // what else goes wrong
    std::uint64_t rest_ns = 0;    // short: how long the second half takes
    std::vector<std::byte> copy;  // write: the bytes at submission
  };

  Stored& stored(const RawRequest& request);
  bool fires(Fault fault);
  void draw_read(Stored& place, Pending& pending);
  void draw_write(Stored& place, Pending& pending);
  std::uint64_t draw_due(Pending& pending);
  void rot();
  bool due();
  void finish_half(Stored& place, const Pending& pending);
  void finish_read(Stored& place, const Pending& pending);
  void finish_write(Stored& place, const Pending& pending);
  void misdirect(const Stored& place, std::span<const std::byte> bytes);
  void flip(std::span<std::byte> bytes);
  void scribble(std::span<std::byte> bytes);

  Config config_;
  const FaultPlan& plan_;
  NthFault& nth_;
  SimMemory& memory_;
  VirtualClock& clock_;
  EventLog& log_;
  Rng rng_;
  std::vector<Stored> extents_;
  std::map<std::pair<std::int32_t, std::uint64_t>, Stored> files_;  // by file and offset
  std::map<const std::byte*, std::uint32_t> passing_;  // faults in a row, by where a reader wants the bytes
  EventQueue<Pending> pending_;
  std::uint64_t read_lane_free_ns_ = 0;
  std::uint64_t write_lane_free_ns_ = 0;
  std::uint64_t stalled_until_ns_ = 0;
  Counters counters_;
};

}  // namespace ebb
