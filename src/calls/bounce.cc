// See bounce.h.
#include "calls/bounce.h"

#include <sys/mman.h>

#include <atomic>

namespace ebb::calls {
namespace {

constexpr std::size_t kKept = 16;
constinit std::atomic<char*> g_kept[kKept];

}  // namespace

Bounce Bounce::take(std::size_t wanted) {
  if (wanted > kBytes) return fresh(wanted);
  Bounce taken;
  for (std::atomic<char*>& kept : g_kept) {
    if (kept.load(std::memory_order_relaxed) != nullptr)
      taken.data_ = kept.exchange(nullptr, std::memory_order_acquire);
    if (taken.data_ != nullptr) break;
  }
  if (taken.data_ == nullptr) taken = fresh(kBytes);
  taken.bytes_ = kBytes;
  taken.reusable_ = true;
  return taken;
}

Bounce Bounce::fresh(std::size_t wanted) {
  Bounce made;
  void* const mapped =
      ::mmap(nullptr, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return made;
  made.data_ = static_cast<char*>(mapped);
  made.bytes_ = wanted;
  return made;
}

void Bounce::give_back() {
  bool keep = false;
  for (std::size_t i = 0; reusable_ && data_ != nullptr && !keep && i < kKept; ++i) {
    char* empty = nullptr;
    keep = g_kept[i].compare_exchange_strong(empty, data_, std::memory_order_release);
  }
  if (!keep && data_ != nullptr) ::munmap(data_, bytes_);
  data_ = nullptr;
}

}  // namespace ebb::calls
