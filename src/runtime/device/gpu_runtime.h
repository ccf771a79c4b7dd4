// GpuRuntime: the DeviceRuntime over a GpuDevice: the same core as a ManagedRuntime, without page faults. What a launch
// needs is made present, and ordered, by marks in streams; the host waits only for what comes from flash, for an
// address whose old content is still in use, and when it is far ahead of the device.
//
// Threads: the program's own; the mover, which alone talks to flash and hashes, outside the lock; and the mapper, which
// changes mappings that no launch waits for yet, outside the lock too. One mutex guards everything else. Other calls to
// the device are made under it: they are short, and what the device is waited for has been started already, so that
// nothing that is waited for needs the lock, but for the end of a change of the mapper's.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/ordered_mutex.h"
#include "core/core.h"
#include "ebb/device.h"
#include "plan/recorder.h"
#include "port/raw_flash.h"
#include "runtime/device/frame_map.h"
#include "runtime/device/tier_queue.h"
#include "runtime/device/timelines.h"
#include "runtime/pace/kernel_times.h"
#include "runtime/pace/stall_clock.h"
#include "runtime/stats_file.h"

namespace ebb {

class GpuRuntime final : public DeviceRuntime {
 public:
  struct Parts {
    Core::Config config;
    std::unique_ptr<GpuDevice> device;
    std::unique_ptr<Timelines> timelines;
    std::unique_ptr<RawFlash> flash;
    std::unique_ptr<Policy> policy;
    Recorder* recorder = nullptr;  // the same policy, if it records
    std::string flash_description;
    std::string flash_directory;
  };
  GpuRuntime(const Options& options, Parts parts);
  ~GpuRuntime() override;

  void* allocate(std::size_t bytes) override;
  void deallocate(void* data) noexcept override { deallocate_on(data, nullptr); }
  void deallocate_on(void* data, Stream stream) noexcept override;
  void* allocate_on(Stream stream, std::size_t bytes) override;
  void unpin_on(Stream stream, std::span<const void* const> allocations) noexcept override;
  void use_on(Stream stream, const void* data) noexcept override;
  bool manages(const void* data) const noexcept override { return offset_of(data) < device_->bytes(); }
  std::size_t block_bytes() const noexcept override { return core_.block_bytes(); }
  std::span<std::byte> adopt(std::span<std::byte> memory) override;
  std::size_t release(std::span<std::byte>) override { return 0; }
  std::size_t discard(std::span<std::byte>) override { return 0; }
  std::uint64_t announce(std::uint64_t op, std::span<const Access> accesses) noexcept override;
  std::uint64_t announce_on(Stream stream, std::uint64_t op, std::span<const Access> accesses) override;
  void retire(std::uint64_t ticket) noexcept override;
  bool recording() const noexcept override { return recorder_ != nullptr && !in_child(); }
  void name_op(std::uint64_t op, const std::string& name) override;
  void step() noexcept override;
  void synchronize() override;
  std::string failure() const override;
  const Options& options() const override { return options_; }
  Stats stats() const override;
  std::vector<double> step_seconds() const override;
  std::string policy() const override;
  std::string description() const override;

 private:
  using Lock = std::unique_lock<OrderedMutex<Rank::kRuntime>>;
  struct Launch {
    std::uint64_t ticket = 0;
    std::uint32_t line = 0;
    std::thread::id thread;
    std::vector<BlockIndex> blocks;
    std::vector<FrameIndex> frames;
    KernelTimes::Sample sample;
  };

  // Launches and allocations are made ready one after the other, so that no two wait for each other; what a thread
  // needs besides, to end a launch that it has open, comes before.
  class Turn {
   public:
    Turn(GpuRuntime& runtime, Lock& lock);
    ~Turn();
    bool may_wait() const { return taken_; }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    GpuRuntime& runtime_;
    const bool taken_;
  };
  std::uint64_t offset_of(const void* data) const {
    return reinterpret_cast<std::uintptr_t>(data) - reinterpret_cast<std::uintptr_t>(device_->base());
  }
  bool in_child() const;
  void check_process() const;
  void check_device() const;
  std::vector<Core::Range> ranges_of(std::span<const Access> accesses) const;
  std::vector<BlockIndex> blocks_of(std::span<const Core::Range> ranges) const;
  std::uint64_t take(std::size_t bytes);
  bool mark_uses(std::uint32_t line, std::span<const BlockRange> ranges);
  void pin(std::span<const BlockIndex> blocks);
  void unpin(std::span<const BlockIndex> blocks);
  void drop_pin(std::uint64_t offset);
  void advance();
  void bring(const Turn& turn, Lock& lock, std::span<const BlockIndex> blocks);
  void let_rush(Lock& lock, std::span<const BlockIndex> blocks);
  std::size_t launches_here() const;
  bool missing(std::span<const BlockIndex> blocks) const;
  bool stuck() const;
  void order(Lock& lock, Launch& launch);
  [[noreturn]] void fail(Status status) const;
  [[noreturn]] void out_of_memory(std::size_t bytes) const;
  [[noreturn]] void out_of_frames(std::size_t blocks) const;
  std::uint64_t begin_launch(Lock& lock, Stream stream, std::uint64_t op, std::span<const Core::Range> ranges);
  void end_launch(Launch& launch);
  void tell_time();
  void write_recording() noexcept;
  void forget_launch(const Launch& launch);
  void start_threads();
  void stop_threads();
  void map_loop();
  void move_loop();
  void submit(const TierQueue::Job& job);
  void collect();
  void settle(Lock& lock);
  void grow_flash(Lock& lock);
  Stats read_stats() const;

  Options options_;
  std::unique_ptr<GpuDevice> device_;
  std::unique_ptr<Timelines> timelines_;
  std::unique_ptr<RawFlash> flash_;
  std::string flash_description_;
  std::string flash_directory_;
  FrameMap frames_;
  TierQueue queue_;
  KernelTimes times_;

  mutable OrderedMutex<Rank::kRuntime> mutex_;
  OrderedCondition changed_;  // something came from flash, went there, or a launch ended
  OrderedCondition to_map_;   // there is work for the mapper
  OrderedCondition mapped_;   // it has done some
  Core core_;
  std::vector<Launch> running_;
  std::unordered_map<std::uint64_t, BlockRange> pinned_;  // allocations that stay, by offset
  std::uint32_t turns_ = 0;                               // 1: it is somebody's Turn
  std::uint32_t rushing_ = 0;                             // those who do not wait for one
  std::vector<TierQueue::Job> jobs_;      // the mover's own, as the next two: what it is about to give to flash
  std::vector<TierQueue::Job> on_flash_;  // what it has given, by token
  std::vector<FlashCompletion> results_;  // what came of it
  StallClock stalls_;
  StatsFile stats_file_;
  Recorder* recorder_;   // owned by the core; null if nothing is recorded
  std::string refused_;  // what announce() could not throw
  std::uint64_t steps_ = 0;
  std::uint64_t last_launch_ns_ = 0;
  KernelTimes::Kind last_kind_ = 0;
  std::uint64_t peak_resident_bytes_ = 0;
  int process_;
  std::atomic<bool> stopping_{false};
  std::thread mapper_;
  std::thread mover_;
};

}  // namespace ebb
