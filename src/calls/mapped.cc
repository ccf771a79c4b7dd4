// See mapped.h.
#include "calls/mapped.h"

#include <sys/mman.h>

#include <atomic>

#include "calls/table.h"

namespace ebb::calls {
namespace {

constinit Files g_files{};
constinit std::atomic<const Files*> g_in_use{nullptr};

// Private, or only to read; where it lies is of no importance, and nothing runs there.
bool can_be_managed(int fd, int protection, int flags) {
  constexpr int kOther = MAP_FIXED | MAP_FIXED_NOREPLACE | MAP_ANONYMOUS | MAP_GROWSDOWN | MAP_HUGETLB | MAP_LOCKED;
  const int kind = flags & MAP_TYPE;
  const bool shared = kind == MAP_SHARED || kind == MAP_SHARED_VALIDATE;
  return fd >= 0 && (flags & kOther) == 0 && (protection & PROT_READ) != 0 && (protection & PROT_EXEC) == 0 &&
         (kind == MAP_PRIVATE || (shared && (protection & PROT_WRITE) == 0));
}

}  // namespace

void* map_file(int fd, std::size_t bytes, int protection, int flags, off_t offset) {
  const Files* const files = g_in_use.load(std::memory_order_acquire);
  if (files == nullptr || !can_be_managed(fd, protection, flags)) return nullptr;
  return files->map(files->context, fd, bytes, offset);
}

bool unmap_file(void* data, std::size_t bytes) {
  const Files* const files = g_in_use.load(std::memory_order_acquire);
  return files != nullptr && files->unmap(files->context, data, bytes);
}

extern "C" [[gnu::visibility("default")]] int ebb_calls_files(const Files* files) {
  if (files == nullptr) {
    g_in_use.store(nullptr, std::memory_order_release);
    return 0;
  }
  if (g_in_use.load(std::memory_order_acquire) != nullptr) return -1;
  g_files = *files;
  g_in_use.store(&g_files, std::memory_order_release);
  return 0;
}

}  // namespace ebb::calls
