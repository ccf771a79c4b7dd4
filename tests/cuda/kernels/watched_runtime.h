// WatchedRuntime: a DeviceRuntime that tells the software driver what its launches have announced, as what the kernels
// started there touch: so races are found also of kernels whose parameters say nothing to the driver, and of cuBLAS.
// With Options::device_strict nothing else is mapped, so that what is not announced is found too.
//
// Any thread; a stream has one launch open at a time.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "ebb/device.h"
#include "soft/soft_driver.h"

namespace ebb {

class WatchedRuntime final : public DeviceRuntime {
 public:
  explicit WatchedRuntime(std::shared_ptr<DeviceRuntime> runtime) : runtime_(std::move(runtime)) {}

  void* allocate(std::size_t bytes) override { return runtime_->allocate(bytes); }
  void deallocate(void* data) noexcept override { runtime_->deallocate(data); }
  std::span<std::byte> adopt(std::span<std::byte> memory) override { return runtime_->adopt(memory); }
  std::size_t release(std::span<std::byte> memory) override { return runtime_->release(memory); }
  std::size_t discard(std::span<std::byte> memory) override { return runtime_->discard(memory); }
  bool manages(const void* data) const noexcept override { return runtime_->manages(data); }
  std::size_t block_bytes() const noexcept override { return runtime_->block_bytes(); }
  std::uint64_t announce(std::uint64_t op, std::span<const Access> accesses) noexcept override {
    return runtime_->announce(op, accesses);
  }
  std::uint64_t announce_on(Stream stream, std::uint64_t op, std::span<const Access> accesses) override {
    const std::uint64_t ticket = runtime_->announce_on(stream, op, accesses);
    std::vector<soft::Touch> touches;
    for (const Access& access : accesses) touches.push_back({access.data, access.bytes, access.written});
    soft::expect(stream, touches);
    const std::lock_guard lock(mutex_);
    open_[ticket] = stream;
    return ticket;
  }
  void retire(std::uint64_t ticket) noexcept override {
    {
      const std::lock_guard lock(mutex_);
      if (const auto found = open_.find(ticket); found != open_.end()) {
        soft::expect(found->second, {});
        open_.erase(found);
      }
    }
    runtime_->retire(ticket);
  }
  void step() noexcept override { runtime_->step(); }
  Stats stats() const override { return runtime_->stats(); }
  std::vector<double> step_seconds() const override { return runtime_->step_seconds(); }
  std::string policy() const override { return runtime_->policy(); }
  std::string description() const override { return runtime_->description(); }
  void deallocate_on(void* data, Stream stream) noexcept override { runtime_->deallocate_on(data, stream); }
  void* allocate_on(Stream stream, std::size_t bytes) override { return runtime_->allocate_on(stream, bytes); }
  void unpin_on(Stream stream, std::span<const void* const> allocations) noexcept override {
    runtime_->unpin_on(stream, allocations);
  }
  void use_on(Stream stream, const void* data) noexcept override { runtime_->use_on(stream, data); }
  void synchronize() override { runtime_->synchronize(); }
  std::string failure() const override { return runtime_->failure(); }
  const Options& options() const override { return runtime_->options(); }

 private:
  const std::shared_ptr<DeviceRuntime> runtime_;
  std::mutex mutex_;
  std::map<std::uint64_t, Stream> open_;
};

}  // namespace ebb
