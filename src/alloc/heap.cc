// See heap.h.
#include "alloc/heap.h"

#include <algorithm>

#include "base/check.h"

namespace ebb {
namespace {

constexpr std::uint64_t kSmallGrain = 64;  // a cache line, and the alignment that PyTorch asks for
constexpr std::uint64_t kLargeGrain = 4096;
constexpr std::uint64_t kLargeFrom = 64 * kLargeGrain;  // rounding up to a page wastes at most 1.6 %

}  // namespace

Heap::Heap(std::uint64_t begin, std::uint64_t end, std::uint64_t waiting_bytes_max)
    : begin_(begin), end_(end), frontier_(begin), waiting_bytes_max_(waiting_bytes_max) {
  EBB_CHECK_LE(begin, end);
}

std::uint64_t Heap::round_up(std::uint64_t bytes) {
  const std::uint64_t grain = bytes < kLargeFrom ? kSmallGrain : kLargeGrain;
  return std::max<std::uint64_t>((bytes + grain - 1) / grain * grain, grain);
}

std::optional<Heap::Range> Heap::allocate(std::uint64_t bytes, std::uint64_t serial) {
  const std::uint64_t size = round_up(bytes);
  Range range{0, size, serial, false, false, 0};
  const auto waiting = waiting_.find(size);
  if (waiting != waiting_.end() && !waiting->second.empty()) {
    range.offset = waiting->second.back();
    range.reused = true;
    waiting->second.pop_back();
    waiting_bytes_ -= size;
  } else {
    if (waiting_bytes_ > waiting_bytes_max_) merge_waiting();
    auto best = runs_by_size_.lower_bound({size, 0});
    if (best == runs_by_size_.end() && end_ - frontier_ < size) {
      merge_waiting();
      best = runs_by_size_.lower_bound({size, 0});
    }
    if (best != runs_by_size_.end()) {
      const auto [run_bytes, offset] = *best;
      remove_run(runs_.find(offset));
      if (run_bytes > size) add_run(offset + size, run_bytes - size);
      range.offset = offset;
    } else if (end_ - frontier_ >= size) {
      range.offset = frontier_;
      frontier_ += size;
    } else {
      return std::nullopt;
    }
  }
  live_.emplace(range.offset, range);
  live_bytes_ += size;
  return range;
}

Heap::Range Heap::free(std::uint64_t offset) {
  const auto live = live_.find(offset);
  EBB_CHECK(live != live_.end());
  const Range range = live->second;
  live_.erase(live);
  live_bytes_ -= range.bytes;
  parked_bytes_ -= range.parked ? range.bytes : 0;
  waiting_bytes_ += range.bytes;
  waiting_[range.bytes].push_back(offset);
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

void Heap::merge_waiting() {
  for (const auto& [size, offsets] : waiting_) {
    for (const std::uint64_t offset : offsets) add_run(offset, size);
  }
  waiting_.clear();
  waiting_bytes_ = 0;
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
  std::uint64_t waiting = 0;
  for (const auto& [bytes, offsets] : waiting_) {
    for (const std::uint64_t offset : offsets) {
      all.emplace_back(offset, bytes);
      waiting += bytes;
    }
  }
  EBB_CHECK_EQ(waiting, waiting_bytes_);
  all.insert(all.end(), runs_.begin(), runs_.end());
  EBB_CHECK_EQ(runs_.size(), runs_by_size_.size());
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
