// See range_cache.h: finding the cache of the calling thread.
#include "runtime/cache/range_cache.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"

namespace ebb {
namespace {

// The caches of a thread that it used last, by the number of the cache. Trivial, so that it can be used at any time,
// also when the thread's other objects have been destroyed: then nothing is entered any more.
constexpr std::size_t kKnown = 4;
struct Known {
  std::uint64_t cache = 0;
  void* thread = nullptr;
};
thread_local constinit std::array<Known, kKnown> t_known{};
thread_local constinit bool t_ended = false;

constexpr std::uint64_t kGrantBytes = 64 * 1024 * 1024;

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

}  // namespace

// What a thread leaves behind waits for another thread to go on with it.
struct RangeCache::ThreadEnd {
  std::vector<std::pair<std::shared_ptr<Threads>, Thread*>> joined;
  ~ThreadEnd() {
    t_ended = true;
    t_known = {};
    for (const auto& [threads, thread] : joined) thread->taken.store(false, std::memory_order_release);
  }
};

RangeCache::RangeCache(std::uint64_t space_bytes)
    : id_(next_id()), table_(space_bytes), threads_(std::make_shared<Threads>()) {}

RangeCache::Thread* RangeCache::mine() const {
  const Known& known = t_known[id_ % kKnown];
  return known.cache == id_ ? static_cast<Thread*>(known.thread) : nullptr;
}

bool RangeCache::take(std::uint64_t bytes, std::uint64_t& offset) {
  Thread* const thread = mine();
  if (thread == nullptr || bytes < RangeTable::kGranule || !is_open()) return false;
  RangeTable::Range range;
  {
    const std::lock_guard lock(thread->ranges.lock);
    if (!is_open() || !thread->ranges.take(bytes, range)) return false;
  }
  table_.set(range);
  offset = range.offset;
  return true;
}

bool RangeCache::put(std::uint64_t offset) {
  Thread* const thread = mine();
  if (thread == nullptr || !is_open()) return false;
  const RangeTable::Range range = table_.get(offset);
  if (range.bytes == 0) return false;
  // From here on it is nobody's: who frees it again finds no such range.
  table_.clear(offset);
  {
    const std::lock_guard lock(thread->ranges.lock);
    if (is_open() && grant(*thread, range.bytes) && thread->ranges.put(range, thread->granted_bytes)) return true;
  }
  table_.set(range);
  return false;
}

// Room for so much more in the thread's share of what may be held, taken from the whole in large pieces; if there is no
// more, what it holds must make place.
bool RangeCache::grant(Thread& thread, std::uint64_t bytes) {
  if (thread.ranges.counters().held_bytes + bytes <= thread.granted_bytes) return true;
  std::uint64_t granted = granted_bytes_.load(std::memory_order_relaxed);
  for (;;) {
    const std::uint64_t held_max = held_bytes_max_.load(std::memory_order_relaxed);
    if (granted >= held_max) return thread.granted_bytes > 0;
    const std::uint64_t more = std::min(std::max(bytes, kGrantBytes), held_max - granted);
    if (!granted_bytes_.compare_exchange_weak(granted, granted + more, std::memory_order_relaxed)) continue;
    thread.granted_bytes += more;
    return true;
  }
}

void RangeCache::join() {
  if (mine() != nullptr || t_ended || !table_.there()) return;
  static thread_local ThreadEnd end;
  std::erase_if(end.joined,
                [](const auto& joined) { return joined.first.use_count() == 1; });  // of caches that are gone
  Thread* thread = nullptr;
  for (const auto& [threads, joined] : end.joined) {
    if (threads == threads_) thread = joined;
  }
  if (thread == nullptr) {
    const std::uint32_t count = threads_->count;
    for (std::uint32_t i = 0; i < count && thread == nullptr; ++i) {
      bool taken = false;
      if (threads_->all[i]->taken.compare_exchange_strong(taken, true, std::memory_order_acquire)) {
        thread = threads_->all[i].get();
      }
    }
    if (thread == nullptr && count == kThreadsMax) return;
    if (thread == nullptr) {
      threads_->all[count] = std::make_unique<Thread>();
      thread = threads_->all[count].get();
      threads_->count = count + 1;
    }
    end.joined.emplace_back(threads_, thread);
  }
  t_known[id_ % kKnown] = {id_, thread};
}

void RangeCache::before_fork() {
  for (std::uint32_t i = 0; i < threads_->count; ++i) threads_->all[i]->ranges.lock.lock();
}

void RangeCache::after_fork() {
  for (std::uint32_t i = threads_->count; i-- > 0;) threads_->all[i]->ranges.lock.unlock();
}

bool RangeCache::has_news() const {
  const std::uint32_t count = threads_->count;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (threads_->all[i]->ranges.has_news()) return true;
  }
  return false;
}

RangeCache::Counters RangeCache::counters() {
  Counters sum;
  for (std::uint32_t i = 0; i < threads_->count; ++i) {
    ThreadRanges& ranges = threads_->all[i]->ranges;
    const std::lock_guard lock(ranges.lock);
    sum.hits += ranges.counters().hits;
    sum.held_bytes += ranges.counters().held_bytes;
    sum.idle_bytes += ranges.counters().idle_bytes;
  }
  return sum;
}

std::uint64_t RangeCache::table_bytes() const { return threads_->count * sizeof(Thread); }

void RangeCache::validate() {
  for (std::uint32_t i = 0; i < threads_->count; ++i) {
    const std::lock_guard lock(threads_->all[i]->ranges.lock);
    threads_->all[i]->ranges.validate();
  }
}

}  // namespace ebb
