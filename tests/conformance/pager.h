// Pager: the smallest runtime that can be: serves touches of absent blocks from copies in ordinary memory, first in
// first out, on a thread of its own. What the suites of SpaceMemory put under it is the driver, not our engine.
//
// One mutex, as in the runtime: every call of the driver is made under it, and it is held around fork. The copies are
// made beforehand, because the thread that serves faults must not allocate.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "base/check.h"
#include "port/space_memory.h"

namespace ebb::conformance {

class Pager {
 public:
  using Bytes = std::vector<std::byte>;

  Pager(SpaceMemory& memory, std::size_t block_bytes, std::uint32_t blocks, std::uint32_t frames)
      : memory_(memory), copies_(blocks, Bytes(block_bytes)), frame_of_(blocks), lost_(blocks, 0) {
    free_.reserve(frames);
    resident_.reserve(frames);
    for (std::uint32_t i = 0; i < frames; ++i) {
      EBB_CHECK(memory_.create(FrameIndex(i)) == Status::kOk);
      free_.push_back(FrameIndex(i));
    }
    thread_ = std::thread([this] { serve_loop(); });
  }

  ~Pager() {
    stopping_ = true;
    memory_.interrupt();
    thread_.join();
  }

  std::mutex& mutex() { return mutex_; }
  // The content of an absent block: read it while nothing moves, set it before anybody touches the block.
  const Bytes& copy(std::uint32_t block) const { return copies_[block]; }
  void set_copy(std::uint32_t block, std::byte value) {
    const std::lock_guard lock(mutex_);
    std::ranges::fill(copies_[block], value);
  }
  std::uint64_t faults() const { return faults_; }

  // Takes the block away from the program. kOk also when it is not there.
  Status evict(std::uint32_t block) {
    const std::lock_guard lock(mutex_);
    return evict_locked(block);
  }
  bool resident(std::uint32_t block) {
    const std::lock_guard lock(mutex_);
    return frame_of_[block].valid();
  }
  void lose(std::uint32_t block) {
    const std::lock_guard lock(mutex_);
    EBB_CHECK(evict_locked(block) == Status::kOk);
    lost_[block] = 1;
    memory_.fail(BlockIndex(block));
  }
  // The lost block has been freed and is given out again.
  void restore(std::uint32_t block) {
    const std::lock_guard lock(mutex_);
    lost_[block] = 0;
    bring(block);
  }
  void serve(std::uint32_t block) {
    const std::lock_guard lock(mutex_);
    serve_locked(block);
  }
  // Gives every frame that is at home back to the system and makes it anew.
  void renew_free_frames() {
    const std::lock_guard lock(mutex_);
    for (const FrameIndex frame : free_) memory_.destroy(frame);
    for (const FrameIndex frame : free_) EBB_CHECK(memory_.create(frame) == Status::kOk);
  }
  std::size_t free_frames() {
    const std::lock_guard lock(mutex_);
    return free_.size();
  }

 private:
  void serve_loop() {
    std::array<BlockIndex, 8> blocks;
    while (!stopping_) {
      const std::size_t count = memory_.next(blocks);
      for (std::size_t i = 0; i < count; ++i) {
        ++faults_;
        serve(blocks[i].value());
      }
    }
  }

  void serve_locked(std::uint32_t block) {
    if (lost_[block] != 0) return memory_.fail(BlockIndex(block));
    if (frame_of_[block].valid()) return memory_.wake(BlockIndex(block));
    bring(block);
  }

  void bring(std::uint32_t block) {
    for (std::size_t tries = 0; free_.empty(); ++tries) {
      EBB_CHECK_LT(tries, resident_.size() + 1);
      const std::uint32_t oldest = resident_.front();
      if (evict_locked(oldest) == Status::kOk) continue;
      std::rotate(resident_.begin(), resident_.begin() + 1, resident_.end());
    }
    const FrameIndex frame = free_.back();
    free_.pop_back();
    std::memcpy(memory_.home(frame).data(), copies_[block].data(), copies_[block].size());
    frame_of_[block] = frame;
    resident_.push_back(block);
    memory_.attach(frame, BlockIndex(block));
  }

  Status evict_locked(std::uint32_t block) {
    const FrameIndex frame = frame_of_[block];
    if (!frame.valid()) return Status::kOk;
    if (const Status status = memory_.detach(BlockIndex(block), frame); status != Status::kOk) return status;
    std::memcpy(copies_[block].data(), memory_.home(frame).data(), copies_[block].size());
    frame_of_[block] = FrameIndex::none();
    resident_.erase(std::find(resident_.begin(), resident_.end(), block));
    free_.push_back(frame);
    return Status::kOk;
  }

  SpaceMemory& memory_;
  std::mutex mutex_;
  std::vector<Bytes> copies_;
  std::vector<FrameIndex> frame_of_;
  std::vector<char> lost_;
  std::vector<FrameIndex> free_;
  std::vector<std::uint32_t> resident_;  // oldest first
  std::atomic<std::uint64_t> faults_{0};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace ebb::conformance
