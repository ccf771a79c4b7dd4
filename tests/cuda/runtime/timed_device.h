// TimedDevice: a GPU without content that takes as long as one: streams are points in time, copies and kernels move
// them on, and calls cost the host what they cost on a GPU. For measuring a runtime's own part without hardware, and
// for tests of who asks a device for what, and when: with the clock stopped, time passes only as a test says.
//
// Owned by its runtime; called as any GpuDevice. Nothing that it holds can be read or written.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "port/gpu_device.h"

namespace ebb {

class TimedDevice final : public GpuDevice {
 public:
  // Nanoseconds of host time a call, and bytes a nanosecond of a copy. The defaults are an NVIDIA H200's with driver
  // 580, measured by gpu_bench (bench/results/2026-11-26-gpu-first.json): those of mapping are under load. What copies
  // add to them is an H100's (bench/results/2026-11-26-gpu-second.json).
  struct Costs {
    std::uint64_t create = 60'000;
    std::uint64_t map = 2'000;
    std::uint64_t permit = 60'000;  // and for each block
    std::uint64_t permit_block = 25'000;
    std::uint64_t unmap = 35'000;
    std::uint64_t unmap_block = 18'000;
    std::uint64_t permit_copying_out = 940'000;  // a block, besides, while something is copied out
    std::uint64_t record = 130;
    std::uint64_t wait = 115;
    std::uint64_t query = 700;
    std::uint64_t copy = 1'500;  // to start one
    double bytes_a_ns = 48;
    std::uint64_t note = 30'000;  // of the device's time
    double changed = 1;           // 1: the device cannot tell
  };
  struct Calls {
    std::uint64_t created = 0, mapped = 0, permits = 0, unmapped = 0, recorded = 0, waited = 0, queried = 0, timed = 0;
    std::uint64_t copied_in = 0, copied_out = 0, noted = 0, copied_changed = 0;
    std::uint64_t host_ns = 0;
    // A program's stream: had nothing to do when its next kernel came; and waited, by then, for other streams.
    std::uint64_t late_ns = 0, ordered_ns = 0;
  };

  TimedDevice(std::size_t block_bytes, std::uint32_t blocks, std::size_t host_bytes, const Costs& costs)
      : block_bytes_(block_bytes), costs_(costs), host_bytes_(host_bytes), bytes_(block_bytes * blocks) {
    space_ = reserve(bytes_);
    host_ = reserve(host_bytes_);
  }
  ~TimedDevice() override {
    for (Event event : events_) delete static_cast<std::uint64_t*>(event);
    ::munmap(space_, bytes_);
    ::munmap(host_, host_bytes_);
  }

  std::byte* base() const override { return space_; }
  std::size_t bytes() const override { return bytes_; }
  std::span<std::byte> host() override { return {host_, host_bytes_}; }
  Status create(FrameIndex) override { return cost(costs_.create, calls_.created); }
  void destroy(FrameIndex) override {}
  Status map(FrameIndex, BlockIndex) override { return cost(costs_.map, calls_.mapped); }
  Status permit(BlockRange blocks) override {
    const std::uint64_t block = costs_.permit_block + (copying_out_until_ > now() ? costs_.permit_copying_out : 0);
    return cost(costs_.permit + block * blocks.count, calls_.permits);
  }
  Status unmap(BlockRange blocks) override {
    return cost(costs_.unmap + costs_.unmap_block * blocks.count, calls_.unmapped, blocks.count);
  }
  Stream copy_stream(Copy direction) const override {
    return const_cast<std::uint64_t*>(&copies_[static_cast<std::size_t>(direction)]);
  }
  Status copy_in(FrameIndex, std::span<const std::byte> from) override {
    return copy(copies_[0], from.size(), calls_.copied_in);
  }
  Status copy_out(std::span<std::byte> to, FrameIndex) override {
    return copy(copies_[1], to.size(), calls_.copied_out);
  }
  // A share of what leaves, having left before, has not changed.
  bool tells_changes() const override { return costs_.changed < 1; }
  Status note(FrameIndex, std::uint32_t) override {
    copies_[2] = std::max(copies_[2], now()) + costs_.note;
    return cost(costs_.copy, calls_.noted);
  }
  Status copy_out_changed(FrameIndex, std::uint32_t) override {
    const auto bytes = static_cast<std::size_t>(static_cast<double>(block_bytes_) * costs_.changed);
    copies_[1] = std::max(copies_[1], now()) + costs_.note;
    return copy(copies_[1], bytes, calls_.copied_changed);
  }
  Status make_event(Event& event) override {
    if (lost()) return Status::kIoError;
    events_.insert(event = new std::uint64_t(0));
    return Status::kOk;
  }
  Status make_timer(Event& event) override { return make_event(event); }
  Status elapsed(Event from, Event to, std::uint64_t& ns) override {
    ++calls_.timed;
    if (lost()) return Status::kIoError;
    const std::uint64_t end = *static_cast<std::uint64_t*>(to);
    if (end > now()) return Status::kBusy;
    ns = end - *static_cast<std::uint64_t*>(from);
    return Status::kOk;
  }
  void destroy_event(Event event) override {
    EBB_CHECK_EQ(events_.erase(event), 1u);
    delete static_cast<std::uint64_t*>(event);
  }
  Status record(Event event, Stream stream) override {
    *static_cast<std::uint64_t*>(event) = std::max(end_of(stream), now());
    return cost(costs_.record, calls_.recorded);
  }
  Status wait(Stream stream, Event event) override {
    std::uint64_t& end = end_of(stream);
    const std::uint64_t until = *static_cast<std::uint64_t*>(event);
    const std::uint64_t from = std::max(end, now());
    if (!copies(stream) && until > from) {
      calls_.late_ns += from - end;
      calls_.ordered_ns += until - from;
      end = from;
    }
    end = std::max(end, until);
    return cost(costs_.wait, calls_.waited);
  }
  Status query(Event event) override {
    if (const Status status = cost(costs_.query, calls_.queried); status != Status::kOk) return status;
    return *static_cast<std::uint64_t*>(event) <= now() ? Status::kOk : Status::kBusy;
  }
  std::string description() const override { return "CUDA without a GPU, timed"; }

  // A kernel in a stream, which is any std::uint64_t of the caller's; and when the stream will be done.
  void run(Stream stream, std::uint64_t ns) {
    std::uint64_t& end = end_of(stream);
    const std::uint64_t from = std::max(end, now());
    if (end != 0) calls_.late_ns += from - end;
    end = from + ns;
  }
  std::uint64_t& end_of(Stream stream) { return *static_cast<std::uint64_t*>(stream); }
  Calls calls() const {
    const std::lock_guard lock(counting_);
    return calls_;
  }
  // Made and not destroyed, timers among them.
  std::uint64_t live_events() const { return events_.size(); }

  // From now on time passes by what calls cost and by pass() alone.
  void stop_clock() { stopped_at_ = monotonic_ns(); }
  void pass(std::uint64_t ns) { stopped_at_ += ns; }
  // From now on every call fails.
  using GpuDevice::lose;

 private:
  static std::byte* reserve(std::size_t bytes) {
    void* const made = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    EBB_CHECK(made != MAP_FAILED);
    return static_cast<std::byte*>(made);
  }
  bool copies(Stream stream) const { return stream >= copies_ && stream < copies_ + 3; }
  std::uint64_t now() const { return stopped_at_ != 0 ? stopped_at_ : monotonic_ns(); }
  Status cost(std::uint64_t ns, std::uint64_t& count, std::uint64_t calls = 1) {
    if (lost()) return Status::kIoError;
    {
      const std::lock_guard lock(counting_);
      count += calls;
      calls_.host_ns += ns;
    }
    if (stopped_at_ != 0) {
      pass(ns);
      return Status::kOk;
    }
    for (const std::uint64_t until = monotonic_ns() + ns; monotonic_ns() < until;) {
    }
    return Status::kOk;
  }
  Status copy(std::uint64_t& stream, std::size_t bytes, std::uint64_t& count) {
    if (const Status status = cost(costs_.copy, count); status != Status::kOk) return status;
    stream = std::max(stream, now()) + static_cast<std::uint64_t>(static_cast<double>(bytes) / costs_.bytes_a_ns);
    if (&stream == &copies_[1]) copying_out_until_ = stream;
    return Status::kOk;
  }

  std::size_t block_bytes_;
  Costs costs_;
  std::size_t host_bytes_;
  std::size_t bytes_;
  std::byte* space_ = nullptr;
  std::byte* host_ = nullptr;
  std::uint64_t copies_[3] = {0, 0, 0};
  std::atomic<std::uint64_t> copying_out_until_{0};
  mutable std::mutex counting_;
  Calls calls_;
  std::set<Event> events_;
  std::uint64_t stopped_at_ = 0;  // 0: the clock runs
};

}  // namespace ebb
