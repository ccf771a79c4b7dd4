// See shared_memory.h. What is mapped in one call and unmapped in one is counted, as PyTorch and loaders of data do it;
// unmapped in parts, it counts until the first page of it goes.
#include "calls/shared_memory.h"

#include <errno.h>
#include <linux/magic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/vfs.h>

#include <atomic>

#include "calls/table.h"

namespace ebb::calls {
namespace {

constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kMappings = 4096;  // further ones do not count
constexpr std::size_t kTries = 64;
constexpr std::uintptr_t kTaken = 1;

struct Mapping {
  std::atomic<std::uintptr_t> begin{0};  // 0: free; kTaken: changes hands
  std::atomic<std::size_t> bytes{0};
};

constinit Mapping g_mappings[kMappings];
constinit std::atomic<std::size_t> g_count{0};
constinit std::atomic<std::size_t> g_bytes{0};
constinit std::atomic<std::size_t> g_most{0};

Mapping& place(std::uintptr_t begin, std::size_t attempt) {
  constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15;
  constexpr unsigned kShift = 52;  // leaves a number below kMappings
  return g_mappings[((begin / kPageBytes * kGolden >> kShift) + attempt) & (kMappings - 1)];
}

bool in_memory(int fd) {
  const int before = errno;
  struct statfs system {};
  const bool found = ::fstatfs(fd, &system) == 0 && system.f_type == TMPFS_MAGIC;
  errno = before;
  return found;
}

void grow(std::size_t bytes) {
  const std::size_t now = g_bytes.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  for (std::size_t most = g_most.load(std::memory_order_relaxed);
       now > most && !g_most.compare_exchange_weak(most, now, std::memory_order_relaxed);) {
  }
}

}  // namespace

void shared_memory_mapped(const void* data, std::size_t bytes, int flags, int fd) {
  if (fd < 0 || (flags & MAP_TYPE) == MAP_PRIVATE || (flags & MAP_ANONYMOUS) != 0 || !in_memory(fd)) return;
  bytes = (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  for (std::size_t i = 0; i < kTries; ++i) {
    Mapping& mapping = place(begin, i);
    std::uintptr_t is_free = 0;
    if (!mapping.begin.compare_exchange_strong(is_free, kTaken, std::memory_order_acquire)) continue;
    g_count.fetch_add(1, std::memory_order_relaxed);
    mapping.bytes.store(bytes, std::memory_order_relaxed);
    mapping.begin.store(begin, std::memory_order_release);
    return grow(bytes);
  }
}

void shared_memory_unmapped(const void* data) {
  if (g_count.load(std::memory_order_relaxed) == 0) return;
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  for (std::size_t i = 0; i < kTries; ++i) {
    Mapping& mapping = place(begin, i);
    std::uintptr_t wanted = begin;
    if (!mapping.begin.compare_exchange_strong(wanted, kTaken, std::memory_order_acquire)) continue;
    g_bytes.fetch_sub(mapping.bytes.load(std::memory_order_relaxed), std::memory_order_relaxed);
    g_count.fetch_sub(1, std::memory_order_relaxed);
    return mapping.begin.store(0, std::memory_order_release);
  }
}

extern "C" [[gnu::visibility("default")]] std::size_t ebb_calls_shared_memory(std::size_t* most) {
  *most = g_most.load(std::memory_order_relaxed);
  return g_bytes.load(std::memory_order_relaxed);
}

}  // namespace ebb::calls
