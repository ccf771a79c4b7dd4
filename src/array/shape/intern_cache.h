// InternCache: immutable values made once per key and shared: shape information, TAD layouts, combined operators.
//
// Bounded: the entry that was used longest ago leaves; whoever still holds its value keeps it (an unbounded cache of
// this kind ran ND4J out of memory). Owned by a static of the file that defines what is cached. Any thread; one mutex,
// held for a lookup, and not while a value is made: two threads may make the same one, the first stays.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ebb/array/types.h"

namespace ebb::array {

using Key = std::vector<std::int64_t>;

struct KeyHash {
  std::size_t operator()(const Key& key) const {
    std::uint64_t hash = 0x9E3779B97F4A7C15ull ^ key.size();
    for (std::int64_t word : key) {
      hash = (hash ^ static_cast<std::uint64_t>(word)) * 0xFF51AFD7ED558CCDull;
      hash ^= hash >> 32;
    }
    return static_cast<std::size_t>(hash);
  }
};

template <typename Value>
class InternCache {
 public:
  explicit InternCache(std::size_t capacity) : capacity_(capacity) {}

  // The value of `key`; `make()` returns a Value for a key that is new.
  template <typename Make>
  std::shared_ptr<const Value> get(const Key& key, const Make& make) {
    {
      std::lock_guard lock(mutex_);
      if (auto found = index_.find(key); found != index_.end()) {
        ++hits_;
        entries_.splice(entries_.begin(), entries_, found->second);
        return found->second->second;
      }
      ++misses_;
    }
    auto made = std::make_shared<const Value>(make());
    std::lock_guard lock(mutex_);
    if (auto found = index_.find(key); found != index_.end()) return found->second->second;
    entries_.emplace_front(key, made);
    index_.emplace(key, entries_.begin());
    if (entries_.size() > capacity_) {
      index_.erase(entries_.back().first);
      entries_.pop_back();
      ++evictions_;
    }
    return made;
  }

  CacheStats stats() const {
    std::lock_guard lock(mutex_);
    return {hits_, misses_, evictions_, entries_.size(), capacity_};
  }

 private:
  using Entry = std::pair<Key, std::shared_ptr<const Value>>;

  mutable std::mutex mutex_;
  const std::size_t capacity_;
  std::list<Entry> entries_;  // used most recently first
  std::unordered_map<Key, typename std::list<Entry>::iterator, KeyHash> index_;
  std::uint64_t hits_ = 0, misses_ = 0, evictions_ = 0;
};

}  // namespace ebb::array
