// See ranges.h. Entries lie in chunks of a page, which are never given back: a reader needs no lock to walk them. Not
// memory of malloc, whose lock the thread that reads may hold.
#include "calls/ranges.h"

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

namespace ebb::calls {

constinit Hull g_absent_hull;
constinit Hull g_our_hull;
constinit Hull g_managed_hull;

namespace {

constexpr std::size_t kChunkEntries = 128;
constexpr std::size_t kPageBytes = 4096;

struct Entry {
  std::atomic<std::uintptr_t> end{0};  // 0: free
  std::atomic<std::uintptr_t> begin{0};
  std::atomic<unsigned> kind{0};
};

struct Chunk {
  Entry entries[kChunkEntries];
  std::atomic<Chunk*> next{nullptr};
};

constinit Chunk g_first;
constinit std::atomic<pid_t> g_writer{0};  // the process of whoever changes the list

// A child of fork inherits no writer: the lock of another process is nobody's.
class Writing {
 public:
  Writing() {
    const pid_t own = ::getpid();
    for (pid_t holder = 0; !g_writer.compare_exchange_weak(holder, own, std::memory_order_acquire);) {
      if (holder != own && g_writer.compare_exchange_strong(holder, own, std::memory_order_acquire)) break;
      holder = 0;
      ::sched_yield();
    }
  }
  ~Writing() { g_writer.store(0, std::memory_order_release); }
  Writing(const Writing&) = delete;
  Writing& operator=(const Writing&) = delete;
};

template <typename F>
void for_each(F&& use) {
  for (Chunk* chunk = &g_first; chunk != nullptr; chunk = chunk->next.load(std::memory_order_acquire)) {
    for (Entry& entry : chunk->entries) {
      const std::uintptr_t end = entry.end.load(std::memory_order_acquire);
      if (end == 0) continue;
      const std::uintptr_t begin = entry.begin.load(std::memory_order_acquire);
      const unsigned kind = entry.kind.load(std::memory_order_acquire);
      // The second look catches an entry that changes hands in between.
      if (entry.end.load(std::memory_order_acquire) == end && begin < end) use(entry, begin, end, kind);
    }
  }
}

// While writing. Shrunk too: what once was managed costs nothing later.
void renew(Hull& hull, Registered kind) {
  std::uintptr_t low = UINTPTR_MAX;
  std::uintptr_t high = 0;
  for_each([&](const Entry&, std::uintptr_t begin, std::uintptr_t end, unsigned has) {
    if ((has & kind) == 0) return;
    low = std::min(low, begin);
    high = std::max(high, end);
  });
  hull.begin.store(low, std::memory_order_relaxed);
  hull.end.store(high, std::memory_order_relaxed);
}

void renew_hulls() {
  renew(g_absent_hull, kAbsentFails);
  renew(g_our_hull, kOurs);
  renew(g_managed_hull, kManaged);
}

Entry* free_entry() {
  for (Chunk* chunk = &g_first;;) {
    for (Entry& entry : chunk->entries) {
      if (entry.end.load(std::memory_order_relaxed) == 0) return &entry;
    }
    Chunk* const next = chunk->next.load(std::memory_order_relaxed);
    if (next == nullptr) {
      void* const mapped = ::mmap(nullptr, sizeof(Chunk), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (mapped == MAP_FAILED) return nullptr;
      chunk->next.store(static_cast<Chunk*>(mapped), std::memory_order_release);  // zeros: all of it free
    }
    chunk = chunk->next.load(std::memory_order_relaxed);
  }
}

// Memory that its owner may have unmapped since is not to be touched: the kernel says of it what it says of any.
bool mapped(std::uintptr_t address, std::size_t bytes) {
  constexpr std::size_t kLookMax = 256;  // pages
  unsigned char resident[kLookMax];
  std::uintptr_t page = address & ~(kPageBytes - 1);
  for (const std::uintptr_t end = address + bytes; page < end; page += kLookMax * kPageBytes) {
    const std::size_t look = std::min<std::size_t>(end - page, kLookMax * kPageBytes);
    if (::mincore(reinterpret_cast<void*>(page), look, resident) != 0) return false;
  }
  return true;
}

}  // namespace

Segment segment_at(const void* data, std::size_t bytes, Registered kind) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  Segment found{bytes, false};
  bool ours = false;
  for_each([&](const Entry&, std::uintptr_t begin, std::uintptr_t end, unsigned has) {
    if ((has & kind) == 0 || end <= address || begin >= address + bytes) return;
    if (begin <= address) {
      found = {std::min(bytes, end - address), true};
      ours = (has & kOurs) != 0;
    } else if (!found.registered) {
      found.bytes = std::min(found.bytes, begin - address);
    }
  });
  if (found.registered && !ours && !mapped(address, found.bytes)) found.registered = false;
  return found;
}

bool registered(const void* data, std::size_t bytes, Registered kind) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  bool found = false;
  for_each([&](const Entry&, std::uintptr_t begin, std::uintptr_t end, unsigned has) {
    found = found || ((has & kind) != 0 && end > address && begin < address + bytes);
  });
  return found;
}

extern "C" {

[[gnu::visibility("default")]] int ebb_calls_register(const void* begin, std::size_t bytes, unsigned registered) {
  const Writing writing;
  Entry* const entry = free_entry();
  if (entry == nullptr || bytes == 0) return -1;
  entry->begin.store(reinterpret_cast<std::uintptr_t>(begin), std::memory_order_release);
  entry->kind.store(registered | kManaged, std::memory_order_release);
  entry->end.store(reinterpret_cast<std::uintptr_t>(begin) + bytes, std::memory_order_release);
  renew_hulls();
  return 0;
}

[[gnu::visibility("default")]] void ebb_calls_unregister(const void* begin) {
  const Writing writing;
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  for_each([&](Entry& entry, std::uintptr_t at, std::uintptr_t, unsigned) {
    if (at == address) entry.end.store(0, std::memory_order_release);
  });
  renew_hulls();
}

}  // extern "C"
}  // namespace ebb::calls
