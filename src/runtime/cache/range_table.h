// RangeTable: how long the range is that starts at an address, and how often it has died and been born, for who does
// not hold the runtime's lock. One word for every granule of the space: a range of at least a granule is the only one
// of its kind that starts there.
//
// A word is written by whoever owns its range: the runtime's lock while it is made or given back, the program's thread
// that frees it, the cache that hands it out. The memory comes from the system as it is touched: 256 bytes for a block
// of 2 MiB.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

namespace ebb {

class RangeTable {
  using Word = std::atomic<std::uint64_t>;  // all bits zero: no range

 public:
  static constexpr std::uint64_t kGranule = 64 * 1024;  // shorter ranges are not known here

  // Deaths and births of a range are numbered, so that the logs of several threads can be put in order. More than so
  // many are never in logs at once.
  static constexpr std::uint32_t kTurns = 1u << 14;
  static constexpr std::uint16_t after(std::uint16_t turn) { return static_cast<std::uint16_t>((turn + 1) % kTurns); }

  struct Range {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    std::uint16_t turn = 0;  // the number of its next event
  };

  explicit RangeTable(std::uint64_t space_bytes) : size_(space_bytes / kGranule + 1) {
    void* const mapped = ::mmap(nullptr, size_ * sizeof(Word), PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped != MAP_FAILED) words_ = static_cast<Word*>(mapped);
  }
  ~RangeTable() {
    if (words_ != nullptr) ::munmap(static_cast<void*>(words_), size_ * sizeof(Word));
  }
  RangeTable(const RangeTable&) = delete;
  RangeTable& operator=(const RangeTable&) = delete;

  // What a block of the space takes here.
  static constexpr std::uint64_t bytes_a_block(std::uint64_t block_bytes) {
    return block_bytes < kGranule ? 1 : block_bytes / kGranule * sizeof(Word);
  }

  // False where there was no memory for it, as under ulimit -v: nothing may be set then.
  bool there() const { return words_ != nullptr; }
  void set(const Range& range) {
    const std::uint64_t length = range.bytes / kUnit << kStartBits;
    words_[range.offset / kGranule].store(std::uint64_t{range.turn} << kTurnShift | length | start(range.offset),
                                          std::memory_order_relaxed);
  }
  // The range that starts at `offset`, of 0 bytes if none is known.
  Range get(std::uint64_t offset) const {
    const std::uint64_t word = words_[offset / kGranule].load(std::memory_order_relaxed);
    if (word % (1u << kStartBits) != start(offset)) return {offset, 0, 0};
    const std::uint64_t length = word % (std::uint64_t{1} << kTurnShift) >> kStartBits;
    return {offset, length * kUnit, static_cast<std::uint16_t>(word >> kTurnShift)};
  }
  void clear(std::uint64_t offset) { words_[offset / kGranule].store(0, std::memory_order_relaxed); }

 private:
  static constexpr std::uint64_t kUnit = 64;
  static constexpr unsigned kStartBits = 10;
  static constexpr unsigned kTurnShift = 50;  // lengths are below 2^46
  static_assert(kGranule / kUnit == 1u << kStartBits);
  static_assert(kTurns == 1u << (64 - kTurnShift));

  static std::uint64_t start(std::uint64_t offset) { return offset % kGranule / kUnit; }

  std::size_t size_;
  Word* words_ = nullptr;
};

}  // namespace ebb
