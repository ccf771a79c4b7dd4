// SimulatedSpace and SimulatedFlash: the ports of a runtime over the memory and the device of the simulator, for
// threads: each call is one step under a lock of the world's. Who touches an absent block waits for it, as a fault
// does.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "interleaving/explorer/explorer.h"
#include "port/raw_flash.h"
#include "port/space_memory.h"
#include "sim/sim_flash.h"
#include "sim/sim_memory.h"

namespace ebb::interleaving {

// What space and flash share, and what outlives the runtime.
struct SimulatedWorld {
  SimulatedWorld(const SimMemory::Config& of_memory, const SimFlash::Config& of_flash)
      : config(of_memory), memory(of_memory, plan, nth, log), flash(of_flash, plan, nth, memory, clock, log) {}

  template <typename Do>
  auto step(Do&& what) {
    const std::lock_guard lock(mutex);
    const Beforehand unwatched;
    return what();
  }

  std::mutex mutex;
  std::condition_variable faulted, changed, flash_woken;
  SimMemory::Config config;
  FaultPlan plan;
  NthFault nth;
  EventLog log;
  VirtualClock clock;
  SimMemory memory;
  SimFlash flash;
  std::vector<BlockIndex> faults;
  bool interrupted = false;
  bool woken = false;
  bool keeps_wakes = true;  // false: a broken device, which wakes only who waits already
};

class SimulatedSpace final : public SpaceMemory {
 public:
  explicit SimulatedSpace(SimulatedWorld& world) : world_(world) {
    void* const mapped = ::mmap(nullptr, bytes(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    EBB_CHECK(mapped != MAP_FAILED);
    base_ = static_cast<std::byte*>(mapped);
    world_.faults.reserve(world_.config.blocks);
  }
  ~SimulatedSpace() override { ::munmap(base_, bytes()); }

  std::byte* base() const override { return base_; }
  std::size_t bytes() const override { return world_.config.blocks * world_.config.block_bytes; }
  std::string description() const override { return "simulated"; }
  void leave_out_of_core_dumps() override {}
  Adoption* adoption(std::string& reason) override {
    reason = "it is simulated";
    return nullptr;
  }
  void before_fork(std::span<const BlockIndex>) override {}
  void after_fork() override {}
  Status enter_child() override { return Status::kUnsupported; }
  void close_child() override {}
  void place(BlockIndex, std::span<const std::byte>) override {}

  Status create(FrameIndex frame) override {
    return world_.step([&] { return world_.memory.create(frame); });
  }
  void destroy(FrameIndex frame) override {
    world_.step([&] { world_.memory.destroy(frame); });
  }
  void attach(FrameIndex frame, BlockIndex block) override {
    world_.step([&] { world_.memory.attach(frame, block); });
    world_.changed.notify_all();
  }
  Status detach(BlockIndex block, FrameIndex frame) override {
    return world_.step([&] { return world_.memory.detach(block, frame); });
  }
  void wake(BlockIndex block) override {
    world_.step([&] { world_.memory.wake(block); });
    world_.changed.notify_all();
  }
  void fail(BlockIndex block) override {
    world_.step([&] { world_.memory.fail(block); });
    world_.changed.notify_all();
  }
  void forget_failure(BlockIndex block) override {
    world_.step([&] { world_.memory.forget_failure(block); });
  }
  std::span<std::byte> home(FrameIndex frame) override { return world_.memory.home(frame); }

  std::size_t next(std::span<BlockIndex> blocks) override {
    std::unique_lock lock(world_.mutex);
    while (world_.faults.empty() && !world_.interrupted) world_.faulted.wait(lock);
    const std::size_t count = std::min(blocks.size(), world_.faults.size());
    std::copy_n(world_.faults.begin(), count, blocks.begin());
    world_.faults.erase(world_.faults.begin(), world_.faults.begin() + static_cast<std::ptrdiff_t>(count));
    return count;
  }
  void interrupt() override {
    world_.step([&] { world_.interrupted = true; });
    world_.faulted.notify_one();
  }

  // The program's: its word in a block, once that is there.
  std::uint64_t read(const void* data) {
    std::uint64_t value = 0;
    touch(data, [&](std::byte* at) { __builtin_memcpy(&value, at, sizeof value); });
    return value;
  }
  void write(const void* data, std::uint64_t value) {
    touch(data, [&](std::byte* at) { __builtin_memcpy(at, &value, sizeof value); });
  }

 private:
  template <typename Use>
  void touch(const void* data, Use use) {
    const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(data) - base_);
    const BlockIndex block(static_cast<std::uint32_t>(offset / world_.config.block_bytes));
    std::unique_lock lock(world_.mutex);
    while (!world_.memory.present(block)) {
      require(!world_.memory.failed(block), "nothing is lost");
      if (world_.memory.failed(block)) return;
      if (!world_.memory.awaited(block)) {
        world_.memory.await(block);
        world_.faults.push_back(block);
        world_.faulted.notify_one();
      }
      world_.changed.wait(lock);
    }
    use(world_.memory.bytes(block).data() + offset % world_.config.block_bytes);
  }

  SimulatedWorld& world_;
  std::byte* base_ = nullptr;
};

class SimulatedFlash final : public RawFlash {
 public:
  explicit SimulatedFlash(SimulatedWorld& world) : world_(world) {}

  std::uint32_t depth() const override { return world_.flash.depth(); }
  void submit(const RawRequest& request) override {
    world_.step([&] { world_.flash.submit(request); });
  }
  std::size_t poll(std::span<RawCompletion> completions) override {
    return world_.step([&] { return world_.flash.poll(completions); });
  }
  // What is in flight comes at once, if nothing else happens before.
  void wait(std::chrono::nanoseconds timeout) override {
    std::unique_lock lock(world_.mutex);
    if (!world_.woken && world_.flash.in_flight() == 0) world_.flash_woken.wait_for(lock, timeout);
    if (!world_.woken && world_.flash.in_flight() > 0) world_.flash.wait(timeout);
    world_.woken = false;
  }
  void wake() override {
    world_.step([&] { world_.woken = world_.keeps_wakes; });
    world_.flash_woken.notify_one();
  }
  Status reserve(std::uint64_t bytes) override {
    return world_.step([&] { return world_.flash.reserve(bytes); });
  }
  Status read_now(const RawRequest& request) override {
    return world_.step([&] { return world_.flash.read_now(request); });
  }

 private:
  SimulatedWorld& world_;
};

}  // namespace ebb::interleaving
