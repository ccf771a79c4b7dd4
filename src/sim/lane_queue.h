// LaneQueue: the tiers below the device in virtual time, for a simulated machine: a FlashQueue whose transfers take
// their turn on lanes of finite bandwidth. Extents below `host_extents` are in host memory, the others on flash.
//
// Traffic with host memory passes the device link; traffic with flash passes the link and the flash device, one after
// the other, so that the link is shared and flash runs at its own pace, in each direction and in both together. Bytes
// are not there, only the number of their version stands for them: a write of an unchanged version takes no time, as
// the runtime skips it. What is in a file is read from flash and never written: what it has is a version of its own.
//
// One thread. Deterministic: events due at the same moment come in the order in which they were made.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/tier.h"
#include "plan/machine.h"
#include "port/flash_queue.h"
#include "sim/event_queue.h"

namespace ebb {

// The content of frames, as version numbers.
class FrameVersions {
 public:
  explicit FrameVersions(std::uint32_t frames) : versions_(frames) {}
  std::uint64_t of(FrameIndex frame) const { return versions_[frame.value()]; }
  void load(FrameIndex frame, std::uint64_t version) { versions_[frame.value()] = version; }
  // The program writes to the frame.
  void change(FrameIndex frame) { versions_[frame.value()] = ++newest_; }

 private:
  std::vector<std::uint64_t> versions_;
  std::uint64_t newest_ = 0;
};

class LaneQueue final : public FlashQueue {
 public:
  struct LaneUse {
    std::uint64_t bytes = 0;
    std::uint64_t busy_ns = 0;
  };

  LaneQueue(const Machine& machine, std::uint64_t block_bytes, std::uint32_t host_extents, bool clean_copies,
            FrameVersions& versions, VirtualClock& clock);

  std::uint32_t depth() const override { return kDepth; }
  void submit(std::span<const FlashRequest> requests) override;
  std::size_t poll(std::span<FlashCompletion> completions) override;
  // Virtual time jumps to the next event; without one nothing happens.
  void wait(std::chrono::nanoseconds timeout) override;
  void wake() override {}
  Status reserve(std::uint32_t) override { return Status::kOk; }

  // Whether a kernel runs: what is submitted from now on passes flash at the speed that is left beside it.
  void set_busy(bool busy) { busy_ = busy; }

  bool idle() const { return events_.empty(); }
  std::uint64_t next_ns() const { return events_.next_ns(); }
  const LaneUse& use(Lane lane) const { return uses_[static_cast<std::size_t>(lane)]; }

  static constexpr std::uint32_t kDepth = 64;

 private:
  struct Event {
    FlashRequest request;
    bool last = false;  // of its stages
    bool unwritten = false;
  };
  struct Server {
    double ns_a_byte = 0;
    double busy_ns_a_byte = 0;  // while a kernel runs
    std::uint64_t free_ns = 0;
  };

  bool on_host(ExtentIndex extent) const { return extent.value() < host_extents_; }
  std::uint64_t block_ns(const Server& server) const;
  std::uint64_t pass(Server& server);
  std::uint64_t pass_flash(Server& direction) { return std::max(pass(direction), pass(flash_both_)); }
  void begin(const FlashRequest& request);
  bool leaves_without_write(const FlashRequest& request) const;
  void finish_stage(const Event& event);
  void count(const FlashRequest& request, std::uint64_t ns);

  Machine machine_;
  std::uint64_t block_bytes_;
  std::uint32_t host_extents_;
  bool busy_ = false;
  bool clean_copies_;  // false: every eviction is a full write, as in the G10 artifact
  FrameVersions& versions_;
  VirtualClock& clock_;
  Server link_in_, link_out_, flash_read_, flash_write_, flash_both_;
  EventQueue<Event> events_;
  std::vector<FlashCompletion> done_;
  std::array<LaneUse, kLanes> uses_{};
};

}  // namespace ebb
