// See memory_model.h.
#include "interleaving/explorer/memory_model.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace ebb::interleaving {
namespace {

bool acquires(std::memory_order order) {
  return order != std::memory_order_relaxed && order != std::memory_order_release;
}
bool releases(std::memory_order order) {
  return order == std::memory_order_release || order == std::memory_order_acq_rel || order == std::memory_order_seq_cst;
}
bool sequential(std::memory_order order) { return order == std::memory_order_seq_cst; }

bool conflict(MemoryModel::Access a, MemoryModel::Access b) {
  using Access = MemoryModel::Access;
  const auto atomic = [](Access kind) { return kind == Access::kAtomicRead || kind == Access::kAtomicWrite; };
  const auto writes = [](Access kind) { return kind == Access::kWrite || kind == Access::kAtomicWrite; };
  return (writes(a) || writes(b)) && !(atomic(a) && atomic(b));
}

}  // namespace

void View::join(const View& other) {
  for (std::size_t i = 0; i < clock.size(); ++i) clock[i] = std::max(clock[i], other.clock[i]);
  join_values(other);
}

void View::join_values(const View& other) {
  for (std::size_t i = 0; i < oldest.size(); ++i) oldest[i] = std::max(oldest[i], other.oldest[i]);
}

void MemoryModel::clear() {
  objects_.clear();
  mutexes_.clear();
  granules_.clear();
  threads_ = {};
  sequential_ = {};
  objects_made_ = 0;
  for (std::size_t i = 0; i < kThreadsMax; ++i) threads_[i].now.clock[i] = 1;
}

// Its first value is what memory has when it is first used.
MemoryModel::Object& MemoryModel::find(const void* object, std::size_t bytes) {
  const auto [found, is_new] = objects_.try_emplace(object);
  if (is_new) {
    EBB_CHECK_LT(objects_made_, kObjectsMax);
    found->second.id = objects_made_++;
    found->second.values.emplace_back();
    std::memcpy(&found->second.values[0].value, object, bytes);
  }
  return found->second;
}

std::uint32_t MemoryModel::oldest_visible(std::size_t thread, const void* object, std::size_t bytes,
                                          std::memory_order order) {
  const std::size_t id = find(object, bytes).id;
  const std::uint16_t own = threads_[thread].now.oldest[id];
  return sequential(order) ? std::max(own, sequential_.oldest[id]) : own;
}

bool MemoryModel::load(std::size_t thread, const void* object, std::size_t bytes, std::uint32_t index,
                       std::memory_order order) {
  Object& found = find(object, bytes);
  Thread& self = threads_[thread];
  const Value& value = found.values[index];
  const bool news = index > self.now.oldest[found.id];
  self.now.oldest[found.id] = std::max(self.now.oldest[found.id], static_cast<std::uint16_t>(index));
  self.acquired.join(value.view);
  if (acquires(order)) self.now.join(value.view);
  if (sequential(order)) {
    sequential_.oldest[found.id] = std::max(sequential_.oldest[found.id], self.now.oldest[found.id]);
  }
  return news;
}

void MemoryModel::add(std::size_t thread, Object& object, void* address, std::size_t bytes, std::uint64_t value,
                      View view) {
  const auto index = static_cast<std::uint16_t>(object.values.size());
  view.oldest[object.id] = index;
  threads_[thread].now.oldest[object.id] = index;
  object.values.push_back({value, view});
  std::memcpy(address, &value, bytes);
  ++threads_[thread].now.clock[thread];
}

void MemoryModel::store(std::size_t thread, void* object, std::size_t bytes, std::uint64_t value,
                        std::memory_order order) {
  Object& found = find(object, bytes);
  Thread& self = threads_[thread];
  add(thread, found, object, bytes, value, releases(order) ? self.now : self.released);
  if (sequential(order)) sequential_.oldest[found.id] = self.now.oldest[found.id];
}

// Who acquires what an update wrote acquires also what the update has read: a release sequence.
void MemoryModel::update(std::size_t thread, void* object, std::size_t bytes, std::uint64_t value,
                         std::memory_order order) {
  Object& found = find(object, bytes);
  load(thread, object, bytes, static_cast<std::uint32_t>(found.values.size()) - 1, order);
  View view = releases(order) ? threads_[thread].now : threads_[thread].released;
  view.join(found.values.back().view);
  add(thread, found, object, bytes, value, view);
  if (sequential(order)) sequential_.oldest[found.id] = threads_[thread].now.oldest[found.id];
}

void MemoryModel::fence(std::size_t thread, std::memory_order order) {
  Thread& self = threads_[thread];
  if (acquires(order)) self.now.join(self.acquired);
  if (sequential(order)) {
    self.now.join_values(sequential_);
    sequential_.join_values(self.now);
  }
  if (releases(order)) self.released = self.now;
  ++self.now.clock[thread];
}

void MemoryModel::release(std::size_t thread, const void* mutex) {
  mutexes_[mutex].join(threads_[thread].now);
  ++threads_[thread].now.clock[thread];
}

void MemoryModel::begin(std::size_t thread, std::size_t maker) {
  threads_[thread].now.join(threads_[maker].now);
  ++threads_[maker].now.clock[maker];
}

bool MemoryModel::access(std::size_t thread, const void* address, std::size_t bytes, Access kind) {
  if (kind == Access::kWrite) renew(address, bytes);
  bool ordered = true;
  const View& now = threads_[thread].now;
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  for (std::uintptr_t at = begin; at < begin + bytes;) {
    Granule& granule = granules_[at / kGranuleBytes];
    const std::uintptr_t end = std::min(begin + bytes, (at / kGranuleBytes + 1) * kGranuleBytes);
    for (; at < end; ++at) {
      const std::size_t byte = at % kGranuleBytes;
      for (std::size_t other = 0; other < kThreadsMax; ++other) {
        if (other == thread) continue;
        for (std::size_t before = 0; before < granule.done[other].size(); ++before) {
          const bool later = granule.done[other][before][byte] > now.clock[other];
          if (later && conflict(kind, static_cast<Access>(before))) ordered = false;
        }
      }
      granule.done[thread][static_cast<std::size_t>(kind)][byte] = now.clock[thread];
    }
  }
  return ordered;
}

// What is written by a plain access is a new object there.
void MemoryModel::renew(const void* address, std::size_t bytes) {
  if (bytes <= kGranuleBytes) {
    objects_.erase(address);
    return;
  }
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  std::erase_if(objects_,
                [&](const auto& entry) { return reinterpret_cast<std::uintptr_t>(entry.first) - begin < bytes; });
}

void MemoryModel::forget(const void* address, std::size_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(address) / kGranuleBytes;
  const auto end = (reinterpret_cast<std::uintptr_t>(address) + bytes + kGranuleBytes - 1) / kGranuleBytes;
  std::erase_if(granules_, [&](const auto& entry) { return entry.first >= begin && entry.first < end; });
  renew(address, bytes);
}

}  // namespace ebb::interleaving
