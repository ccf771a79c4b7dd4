// FixedRuntime: the DeviceRuntime over a FixedDevice: every allocation keeps its place for life, in memory of the
// device while there is room, else in host memory that the device reads where it lies. Nothing moves, nothing is on
// flash, and no launch is refused; what is left to do is not to hand out memory that work still uses.
//
// Threads: the program's own; one mutex guards everything. A freed place waits for its fences, which allocate() looks
// at, and waits for only when there is no other room.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "alloc/heap.h"
#include "ebb/device.h"
#include "port/fixed_device.h"
#include "runtime/device/timelines.h"
#include "runtime/stats_file.h"

namespace ebb {

class FixedRuntime final : public DeviceRuntime {
 public:
  FixedRuntime(const Options& options, std::unique_ptr<FixedDevice> device, std::unique_ptr<Timelines> timelines);
  ~FixedRuntime() override;

  void* allocate(std::size_t bytes) override;
  void deallocate(void* data) noexcept override { deallocate_on(data, nullptr); }
  void deallocate_on(void* data, Stream stream) noexcept override;
  // Nothing moves: all memory is there at once and stays.
  void* allocate_on(Stream, std::size_t bytes) override { return allocate(bytes); }
  void unpin_on(Stream stream, std::span<const void* const> allocations) noexcept override;
  void use_on(Stream stream, const void* data) noexcept override { unpin_on(stream, {&data, 1}); }
  bool manages(const void* data) const noexcept override;
  std::span<std::byte> adopt(std::span<std::byte> memory) override;
  std::size_t release(std::span<std::byte>) override { return 0; }
  std::size_t discard(std::span<std::byte>) override { return 0; }
  std::uint64_t announce(std::uint64_t op, std::span<const Access> accesses) noexcept override;
  std::uint64_t announce_on(Stream stream, std::uint64_t op, std::span<const Access> accesses) override;
  void retire(std::uint64_t ticket) noexcept override;
  void step() noexcept override;
  void synchronize() override;
  std::string failure() const override;
  const Options& options() const override { return options_; }
  Stats stats() const override;
  std::vector<double> step_seconds() const override;
  std::string policy() const override { return "fixed"; }
  std::string description() const override;

 private:
  using Lock = std::lock_guard<std::mutex>;
  struct Area {
    std::byte* base = nullptr;
    std::size_t bytes = 0;
    Heap heap;
  };
  struct Allocation {
    std::size_t area = 0;
    std::size_t bytes = 0;
    Fences uses;
  };
  struct Freed {
    std::size_t area = 0;
    std::uint64_t offset = 0;
    Fences until;
  };
  struct Launch {
    std::uint64_t ticket = 0;
    std::uint32_t line = 0;
    std::vector<const std::byte*> allocations;
  };

  bool in_child() const;
  void check_process() const;
  void check_device() const;
  [[noreturn]] void out_of_memory(std::size_t bytes) const;
  void collect();
  std::byte* take(std::size_t bytes);
  void use(std::span<const Access> accesses, std::vector<const std::byte*>& allocations) const;
  Stats read_stats() const;

  Options options_;
  std::unique_ptr<FixedDevice> device_;
  std::unique_ptr<Timelines> timelines_;
  mutable std::mutex mutex_;
  std::array<Area, 2> areas_;  // of the device, of the host
  std::map<const std::byte*, Allocation> live_;
  std::deque<Freed> freed_;  // oldest first
  std::vector<Launch> running_;
  StatsFile stats_file_;
  std::string refused_;  // what announce() could not throw
  std::uint64_t tickets_ = 0;
  std::uint64_t serials_ = 0;
  Stats stats_;  // the counters that change; the rest is read
  std::uint64_t last_step_ns_ = 0;
  int process_;
};

}  // namespace ebb
