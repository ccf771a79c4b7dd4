// FuzzModel: what a program knows of its own memory: which allocations it has and, byte for byte, what it last wrote
// there. The obvious data structure; the core must agree with it whatever it does with frames and flash.
//
// Content is kept in grains of 64 bytes, the least alignment of an allocation; one is undefined until it is written.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/index.h"
#include "base/rng.h"

namespace ebb {

class FuzzModel {
 public:
  static constexpr std::uint64_t kGrain = 64;

  enum class Kind { kPlain, kAdopted, kMapped };  // of the program's own, and of a file: whole blocks

  struct Allocation {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    Kind kind = Kind::kPlain;
    std::uint64_t reserved = 0;  // adopted: the allocation that the core knows those as
  };

  FuzzModel(std::uint32_t blocks, std::uint64_t block_bytes)
      : block_bytes_(block_bytes),
        content_(blocks * block_bytes),
        defined_(blocks * block_bytes / kGrain),
        live_(blocks),
        lost_(blocks) {}

  const std::vector<Allocation>& allocations() const { return allocations_; }
  std::uint32_t blocks() const { return static_cast<std::uint32_t>(live_.size()); }
  std::uint32_t live_blocks() const { return live_blocks_; }
  std::uint64_t mapped_bytes() const {
    std::uint64_t bytes = 0;
    for (const Allocation& each : allocations_) bytes += each.kind == Kind::kMapped ? each.bytes : 0;
    return bytes;
  }
  bool lost(BlockIndex block) const { return lost_[block.value()]; }
  bool live(BlockIndex block) const { return live_[block.value()] > 0; }

  void add(std::uint64_t offset, std::uint64_t bytes, Kind kind = Kind::kPlain, std::uint64_t reserved = 0) {
    EBB_CHECK_EQ(offset % kGrain, 0u);
    EBB_CHECK_EQ(bytes % kGrain, 0u);
    for (const Allocation& other : allocations_) {
      EBB_CHECK(offset + bytes <= other.offset || other.offset + other.bytes <= offset);
    }
    allocations_.push_back({offset, bytes, kind, reserved});
    // What is in a file has a place already.
    const std::uint32_t place = kind == Kind::kMapped ? 0 : 1;
    for_blocks(offset, bytes, [&](std::size_t block) { live_blocks_ += live_[block]++ == 0 ? place : 0; });
    undefine(offset, bytes);
  }

  void remove(std::size_t which) {
    const Allocation allocation = allocations_[which];
    allocations_[which] = allocations_.back();
    allocations_.pop_back();
    undefine(allocation.offset, allocation.bytes);
    for_blocks(allocation.offset, allocation.bytes, [&](std::size_t block) {
      if (--live_[block] > 0) return;
      live_blocks_ -= allocation.kind == Kind::kMapped ? 0 : 1;
      lost_[block] = false;
    });
  }

  // Everything in the block is gone, until nobody has it any more.
  void lose(BlockIndex block) { lost_[block.value()] = true; }
  void find(BlockIndex block) { lost_[block.value()] = false; }

  // The program writes noise from `seed`, zeros if that is 0, to a range of whole grains within one block, whose bytes
  // are `block`.
  void write(std::uint64_t offset, std::uint64_t bytes, std::uint64_t seed, std::span<std::byte> block) {
    Rng rng(seed);
    for (std::uint64_t at = offset; at < offset + bytes; at += sizeof(std::uint64_t)) {
      const std::uint64_t value = seed == 0 ? 0 : rng.next();
      std::memcpy(&content_[at], &value, sizeof value);
    }
    std::fill_n(defined_.begin() + static_cast<std::ptrdiff_t>(offset / kGrain), bytes / kGrain, true);
    std::memcpy(block.data() + offset % block_bytes_, &content_[offset], bytes);
  }

  bool mapped(std::uint64_t offset) const {
    return std::any_of(allocations_.begin(), allocations_.end(), [&](const Allocation& each) {
      return each.kind == Kind::kMapped && offset >= each.offset && offset < each.offset + each.bytes;
    });
  }

  // The program finds this there.
  void define(std::uint64_t offset, std::span<const std::byte> content) {
    std::copy(content.begin(), content.end(), content_.begin() + static_cast<std::ptrdiff_t>(offset));
    std::fill_n(defined_.begin() + static_cast<std::ptrdiff_t>(offset / kGrain), content.size() / kGrain, true);
  }

  // Whether a block's bytes are what the program wrote, wherever it wrote.
  bool matches(BlockIndex index, std::span<const std::byte> block) const {
    const std::uint64_t start = index.value() * block_bytes_;
    for (std::uint64_t at = 0; at < block_bytes_; at += kGrain) {
      if (!defined_[(start + at) / kGrain]) continue;
      if (std::memcmp(&content_[start + at], block.data() + at, kGrain) != 0) return false;
    }
    return true;
  }

  // The program has said that it will overwrite these bytes before it reads them.
  void undefine(std::uint64_t offset, std::uint64_t bytes) {
    std::fill_n(defined_.begin() + static_cast<std::ptrdiff_t>(offset / kGrain), bytes / kGrain, false);
  }

 private:
  template <typename F>
  void for_blocks(std::uint64_t offset, std::uint64_t bytes, F&& visit) {
    for (std::uint64_t block = offset / block_bytes_; block <= (offset + bytes - 1) / block_bytes_; ++block) {
      visit(static_cast<std::size_t>(block));
    }
  }

  std::uint64_t block_bytes_;
  std::vector<std::byte> content_;
  std::vector<bool> defined_;
  std::vector<std::uint32_t> live_;  // allocations that overlap each block
  std::vector<bool> lost_;
  std::vector<Allocation> allocations_;
  std::uint32_t live_blocks_ = 0;  // but for those of files
};

}  // namespace ebb
