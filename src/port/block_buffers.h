// BlockBuffers: a few buffers of one size for a RawFlash, aligned as O_DIRECT asks, to be handed out and taken back.
// Their memory exists from the first use of each on, and is left out of core dumps.
//
// Owned by who moves blocks; one thread. It allocates when it is made and never again.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <vector>

#include "base/check.h"

namespace ebb {

class BlockBuffers {
 public:
  // As many as keep a disk busy, two at least; no more than can be in flight.
  static std::uint32_t count_for(std::size_t block_bytes, std::uint32_t depth) {
    constexpr std::size_t kBytes = std::size_t{8} << 20;
    return static_cast<std::uint32_t>(std::clamp<std::size_t>(kBytes / block_bytes, 2, std::max(depth, 2u)));
  }

  BlockBuffers(std::size_t block_bytes, std::uint32_t count) : block_bytes_(block_bytes), mapped_(block_bytes * count) {
    if (count == 0) return;
    void* const mapped = ::mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    ::madvise(mapped, mapped_, MADV_DONTDUMP);
    data_ = static_cast<std::byte*>(mapped);
    free_.reserve(count);
    for (std::uint32_t i = count; i > 0; --i) free_.push_back(data_ + (i - 1) * block_bytes_);
  }
  BlockBuffers(const BlockBuffers&) = delete;
  BlockBuffers& operator=(const BlockBuffers&) = delete;
  ~BlockBuffers() {
    if (data_ != nullptr) ::munmap(data_, mapped_);
  }

  bool empty() const { return free_.empty(); }
  std::span<std::byte> take() {
    EBB_CHECK(!free_.empty());
    std::byte* const data = free_.back();
    free_.pop_back();
    return {data, block_bytes_};
  }
  void give_back(std::span<std::byte> buffer) { free_.push_back(buffer.data()); }

 private:
  std::size_t block_bytes_;
  std::size_t mapped_;
  std::byte* data_ = nullptr;
  std::vector<std::byte*> free_;
};

}  // namespace ebb
