// EngineFixture: an engine with everything below it but flash, which the test itself is: it takes requests when it
// likes and completes them as it likes. Blocks of 64 bytes; few frames, so that everything has to move.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include "base/digest.h"
#include "move/engine.h"
#include "sim/sim_memory.h"

namespace ebb {

class EngineFixture : public ::testing::Test {
 protected:
  static constexpr std::size_t kBytes = 64;
  static constexpr std::uint32_t kBlocks = 64;

  // A fresh world.
  void make(std::uint32_t frames, std::uint32_t extents, const Engine::Limits& limits = {4, 0, 0}) {
    engine_.reset();
    requests_.clear();
    stored_.clear();
    memory_ = std::make_unique<SimMemory>(SimMemory::Config{kBytes, frames, kBlocks, 1}, plan_, nth_, log_);
    table_ = std::make_unique<PageTable>(kBlocks, frames);
    frames_ = std::make_unique<FramePool>(*memory_, frames);
    extents_ = std::make_unique<ExtentPool>(extents);
    extents_->set_capacity(extents);
    policy_ = new_policy();
    engine_ = std::make_unique<Engine>(*table_, *frames_, *extents_, *memory_, *policy_, limits);
  }
  virtual std::unique_ptr<Policy> new_policy() { return make_policy("window"); }
  // One with a block in each frame.
  void make_full(std::uint32_t frames, std::uint32_t extents) {
    make(frames, extents);
    fill_first(frames);
  }
  // One with two frames: block 0 is on flash, blocks 1 and 2 are in memory.
  void make_with_one_away(std::uint32_t extents) {
    make_full(2, extents);
    evict(0, 2);
    finish();
  }

  BlockState state(std::uint32_t block) const { return (*table_)[BlockIndex(block)].state; }
  Block& block(std::uint32_t index) { return (*table_)[BlockIndex(index)]; }
  void use(std::uint32_t index) { block(index).last_use = ++clock_; }

  void retain(std::uint32_t first, std::uint32_t count = 1) { engine_->retain({BlockIndex(first), count}); }
  void release(std::uint32_t first, std::uint32_t count = 1) {
    engine_->release({BlockIndex(first), count});
    engine_->validate();
  }
  void fault(std::uint32_t index) {
    memory_->await(BlockIndex(index));
    use(index);
    engine_->fault(BlockIndex(index));
    pump();
  }
  void want(std::uint32_t index) {
    engine_->want(BlockIndex(index));
    pump();
  }
  void pump() {
    engine_->pump();
    engine_->validate();
  }

  // Flash: takes what there is, in the order of the engine.
  std::size_t take() {
    std::array<FlashRequest, 16> taken;
    const std::size_t count = engine_->take_requests(taken);
    for (const FlashRequest& request : std::span(taken).first(count)) requests_.push_back(request);
    return count;
  }
  // Completes one that was taken, as CheckedFlash would.
  void complete(std::size_t which = 0, Status status = Status::kOk) {
    ASSERT_LT(which, requests_.size());
    const FlashRequest request = requests_[which];
    requests_.erase(requests_.begin() + static_cast<std::ptrdiff_t>(which));
    const std::span<std::byte> home = memory_->home(request.frame);
    FlashCompletion completion{request.token, status, false, digest(home)};
    if (status == Status::kOk && request.kind == FlashRequest::Kind::kWrite) {
      completion.unchanged = request.has_expected && completion.digest == request.expected;
      if (!completion.unchanged) stored_[request.extent.value()].assign(home.begin(), home.end());
    } else if (status == Status::kOk) {
      const std::vector<std::byte>& bytes = stored_.at(request.extent.value());
      std::copy(bytes.begin(), bytes.end(), home.begin());
      if (digest(home) != request.expected) completion.status = Status::kCorrupt;
    }
    engine_->complete(completion);
    engine_->validate();
    pump();
  }
  // The request under way for a block, among those taken.
  std::size_t request_of(std::uint32_t index) {
    const auto found = std::find_if(requests_.begin(), requests_.end(),
                                    [&](const FlashRequest& request) { return request.frame == block(index).frame; });
    return static_cast<std::size_t>(found - requests_.begin());
  }
  void finish() {
    while (take() > 0 || !requests_.empty()) complete();
  }
  void fetch(std::uint32_t index) {
    fault(index);
    finish();
  }
  // Whether a touch gets what was written.
  bool comes_back(std::uint32_t index, std::uint32_t value) {
    fetch(index);
    return here(index, value);
  }

  // A block with content of its own, resident.
  void fill(std::uint32_t index) {
    if (block(index).live == 0) retain(index);
    fetch(index);
    ASSERT_EQ(state(index), BlockState::kResident);
    write(index, index);
  }
  void fill_first(std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) fill(i);
  }
  void write(std::uint32_t index, std::uint32_t value) {
    for (std::byte& byte : memory_->bytes(BlockIndex(index))) byte = static_cast<std::byte>(value + 1);
  }
  bool holds(std::uint32_t index, std::uint32_t value) {
    const auto bytes = memory_->bytes(BlockIndex(index));
    const auto expected = static_cast<std::byte>(value + 1);
    return std::all_of(bytes.begin(), bytes.end(), [&](std::byte byte) { return byte == expected; });
  }
  bool here(std::uint32_t index, std::uint32_t value) {
    return state(index) == BlockState::kResident && holds(index, value);
  }
  // Has a block leave for flash: another one, `instead`, is faulted for.
  void evict(std::uint32_t index, std::uint32_t instead) {
    ASSERT_EQ(frames_->free() + frames_->room(), 0u);
    block(index).last_use = 0;
    retain(instead);
    fault(instead);
    ASSERT_EQ(state(index), BlockState::kEvicting);
  }

  FaultPlan plan_;
  NthFault nth_;
  EventLog log_;
  std::unique_ptr<SimMemory> memory_;
  std::unique_ptr<PageTable> table_;
  std::unique_ptr<FramePool> frames_;
  std::unique_ptr<ExtentPool> extents_;
  std::unique_ptr<Policy> policy_;
  std::unique_ptr<Engine> engine_;
  std::vector<FlashRequest> requests_;  // taken, not completed
  std::map<std::uint32_t, std::vector<std::byte>> stored_;
  std::uint64_t clock_ = 0;
};

// The same with a policy of the test's own.
template <typename Own>
class EngineFixtureWith : public EngineFixture {
 protected:
  std::unique_ptr<Policy> new_policy() override {
    auto policy = std::make_unique<Own>();
    own_ = policy.get();
    return policy;
  }
  Own* own_ = nullptr;
};

}  // namespace ebb
