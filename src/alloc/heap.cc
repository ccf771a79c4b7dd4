// See heap.h.
#include "alloc/heap.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"

namespace ebb {
namespace {

constexpr std::uint64_t kSmallGrain = 64;  // a cache line, and the alignment that PyTorch asks for
constexpr std::uint64_t kLargeGrain = 4096;
constexpr std::uint64_t kLargeFrom = 64 * kLargeGrain;  // rounding up to a page wastes at most 1.6 %

}  // namespace

Heap::Heap(std::uint64_t begin, std::uint64_t end) : begin_(begin), end_(end), frontier_(begin), used_to_(begin) {
  EBB_CHECK_LE(begin, end);
}

std::uint64_t Heap::round_up(std::uint64_t bytes) {
  const std::uint64_t grain = bytes < kLargeFrom ? kSmallGrain : kLargeGrain;
  return std::max<std::uint64_t>((bytes + grain - 1) / grain * grain, grain);
}

std::optional<Heap::Range> Heap::allocate(std::uint64_t bytes, std::uint64_t serial) {
  const std::uint64_t size = round_up(bytes);
  const std::uint64_t offset = place_for(size);
  if (offset == EarlierPlaces::kNone) return std::nullopt;
  earlier_.note(size, offset);
  const Range range{offset, size, serial, offset < used_to_, false, 0};
  used_to_ = std::max(used_to_, frontier_);
  live_.emplace(offset, range);
  live_bytes_ += size;
  return range;
}

std::uint64_t Heap::place_for(std::uint64_t bytes) {
  for (const std::uint64_t offset : earlier_.of(bytes)) {
    if (offset != EarlierPlaces::kNone && take(offset, bytes)) return offset;
  }
  const auto best = runs_by_size_.lower_bound({bytes, 0});
  const std::uint64_t offset = best != runs_by_size_.end() ? best->second : frontier_;
  return take(offset, bytes) ? offset : EarlierPlaces::kNone;
}

// False: not all of that is free.
bool Heap::take(std::uint64_t offset, std::uint64_t bytes) {
  if (offset >= frontier_) {
    if (bytes > end_ - offset) return false;
    const std::uint64_t gap = std::exchange(frontier_, offset + bytes);
    if (gap < offset) add_run(gap, offset - gap);
    return true;
  }
  auto run = runs_.upper_bound(offset);
  if (run == runs_.begin()) return false;
  const auto [begin, run_bytes] = *--run;
  if (begin + run_bytes < offset + bytes) return false;
  remove_run(run);
  if (begin < offset) add_run(begin, offset - begin);
  if (offset + bytes < begin + run_bytes) add_run(offset + bytes, begin + run_bytes - offset - bytes);
  return true;
}

Heap::Range Heap::free(std::uint64_t offset) {
  const auto live = live_.find(offset);
  EBB_CHECK(live != live_.end());
  const Range range = live->second;
  live_.erase(live);
  live_bytes_ -= range.bytes;
  parked_bytes_ -= range.parked ? range.bytes : 0;
  add_run(offset, range.bytes);
  return range;
}

Heap::Range Heap::park(std::uint64_t offset) {
  const auto live = live_.find(offset);
  EBB_CHECK(live != live_.end());
  EBB_CHECK(!live->second.parked);
  live->second.parked = true;
  ++live->second.turns;
  parked_bytes_ += live->second.bytes;
  return live->second;
}

Heap::Range Heap::unpark(std::uint64_t offset, std::uint64_t serial) {
  const auto live = live_.find(offset);
  EBB_CHECK(live != live_.end());
  EBB_CHECK(live->second.parked);
  live->second.parked = false;
  ++live->second.turns;
  live->second.serial = serial;
  parked_bytes_ -= live->second.bytes;
  return live->second;
}

const Heap::Range* Heap::find(std::uint64_t offset) const {
  const auto live = live_.find(offset);
  return live == live_.end() ? nullptr : &live->second;
}

void Heap::add_run(std::uint64_t offset, std::uint64_t bytes) {
  auto after = runs_.lower_bound(offset);
  if (after != runs_.end() && after->first == offset + bytes) {
    bytes += after->second;
    remove_run(after);
    after = runs_.lower_bound(offset);
  }
  if (after != runs_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == offset) {
      offset = before->first;
      bytes += before->second;
      remove_run(before);
    }
  }
  if (offset + bytes == frontier_) {
    frontier_ = offset;
    return;
  }
  runs_.emplace(offset, bytes);
  runs_by_size_.emplace(bytes, offset);
}

void Heap::remove_run(std::map<std::uint64_t, std::uint64_t>::iterator run) {
  runs_by_size_.erase({run->second, run->first});
  runs_.erase(run);
}

void Heap::validate() const {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> all;
  std::uint64_t live = 0, parked = 0;
  for (const auto& [offset, range] : live_) {
    all.emplace_back(offset, range.bytes);
    live += range.bytes;
    parked += range.parked ? range.bytes : 0;
  }
  EBB_CHECK_EQ(live, live_bytes_);
  EBB_CHECK_EQ(parked, parked_bytes_);
  all.insert(all.end(), runs_.begin(), runs_.end());
  EBB_CHECK_EQ(runs_.size(), runs_by_size_.size());
  std::uint64_t run_end = begin_;
  for (const auto& [offset, bytes] : runs_) {
    EBB_CHECK(offset == begin_ || offset > run_end);  // or they would have been merged
    run_end = offset + bytes;
  }
  EBB_CHECK(runs_.empty() || run_end < frontier_);
  std::sort(all.begin(), all.end());
  std::uint64_t at = begin_;
  for (const auto& [offset, bytes] : all) {
    EBB_CHECK_EQ(offset, at);
    at += bytes;
  }
  EBB_CHECK_EQ(at, frontier_);
  EBB_CHECK_LE(frontier_, end_);
}

}  // namespace ebb
