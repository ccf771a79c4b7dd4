// See refusal.h. Straight to the descriptor: no lock, no malloc.
#include "calls/refusal.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

namespace ebb::calls {
namespace {

constexpr const char* kTexts[] = {
    "ebb: munmap() of managed memory is refused (EINVAL): free the tensor or array instead\n",
    "ebb: mremap() of managed memory is refused (EINVAL): copy into an allocation of the new size instead\n",
    "ebb: mapping over managed memory (MAP_FIXED) is refused (EINVAL): map at an address that is free instead\n",
    "ebb: mlock() of managed memory is refused (ENOMEM): its budget is smaller than it is. Keep in ordinary memory "
    "what "
    "has to stay: make it before ebbtide.enable(), or smaller than --managed-min\n",
    "ebb: mprotect() of managed memory is refused (EACCES): it stays readable and writable. Keep in ordinary memory "
    "what "
    "has to be protected: make it before ebbtide.enable()\n",
    "ebb: this madvise() of managed memory is refused (EINVAL): what it promises cannot be kept there\n",
};
constinit std::atomic<bool> g_told[std::size(kTexts)];

}  // namespace

int refuse(Refusal refusal, int error) {
  const auto index = static_cast<std::size_t>(refusal);
  if (!g_told[index].exchange(true)) {
    ::syscall(SYS_write, STDERR_FILENO, kTexts[index], ::strlen(kTexts[index]));
  }
  errno = error;
  return -1;
}

}  // namespace ebb::calls
