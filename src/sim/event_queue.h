// VirtualClock and EventQueue: time in the simulated world passes only when somebody waits, and then jumps to the next
// event. Events due at the same moment come in the order in which they were added, so a run depends on nothing else.
//
// One thread. Nanoseconds in 64 bits last 584 years.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/check.h"

namespace ebb {

class VirtualClock {
 public:
  std::uint64_t now_ns() const { return now_ns_; }
  void advance_to(std::uint64_t time_ns) { now_ns_ = std::max(now_ns_, time_ns); }

 private:
  std::uint64_t now_ns_ = 0;
};

template <typename Event>
class EventQueue {
 public:
  bool empty() const { return heap_.empty(); }
  std::size_t size() const { return heap_.size(); }
  std::uint64_t next_ns() const {
    EBB_CHECK(!heap_.empty());
    return heap_.front().time_ns;
  }

  const Event& next() const {
    EBB_CHECK(!heap_.empty());
    return heap_.front().event;
  }

  void add(std::uint64_t time_ns, Event event) {
    heap_.push_back({time_ns, added_++, std::move(event)});
    std::push_heap(heap_.begin(), heap_.end(), later);
  }

  Event take() {
    EBB_CHECK(!heap_.empty());
    std::pop_heap(heap_.begin(), heap_.end(), later);
    Event event = std::move(heap_.back().event);
    heap_.pop_back();
    return event;
  }

 private:
  struct Entry {
    std::uint64_t time_ns;
    std::uint64_t order;
    Event event;
  };
  static bool later(const Entry& left, const Entry& right) {
    return left.time_ns != right.time_ns ? left.time_ns > right.time_ns : left.order > right.order;
  }

  std::vector<Entry> heap_;
  std::uint64_t added_ = 0;
};

}  // namespace ebb
