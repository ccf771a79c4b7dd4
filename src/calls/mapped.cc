// See mapped.h.
#include "calls/mapped.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#include "calls/table.h"

namespace ebb::calls {
namespace {

constexpr std::size_t kHostBytesMin = std::size_t{64} << 20;

constinit Files g_files{};
constinit std::atomic<const Files*> g_in_use{nullptr};

bool is_shared(int flags) { return (flags & MAP_TYPE) != MAP_PRIVATE; }

// What the program may write to through the descriptor itself, it expects to find in its mapping.
bool only_read(int fd) {
  const int before = errno;
  const int mode = ::fcntl(fd, F_GETFL);
  errno = before;
  return mode >= 0 && (mode & O_PATH) == 0 && (mode & O_ACCMODE) == O_RDONLY;
}

// Private, or only to read; where it lies is of no importance, and nothing runs there.
bool can_be_managed(int fd, int protection, int flags) {
  constexpr int kOther = MAP_FIXED | MAP_FIXED_NOREPLACE | MAP_ANONYMOUS | MAP_GROWSDOWN | MAP_HUGETLB | MAP_LOCKED;
  const int kind = flags & MAP_TYPE;
  const bool shared = kind == MAP_SHARED || kind == MAP_SHARED_VALIDATE;
  return fd >= 0 && (flags & kOther) == 0 && (protection & PROT_READ) != 0 && (protection & PROT_EXEC) == 0 &&
         (kind == MAP_PRIVATE || (shared && (protection & PROT_WRITE) == 0)) && only_read(fd);
}

// A program that has no runtime is given one with the first file that is worth it.
void load_host(std::size_t bytes) {
  static constinit std::atomic<bool> g_tried{false};
  const char* const path = bytes < kHostBytesMin ? nullptr : ::getenv("EBB_HOST");
  if (path == nullptr || g_tried.exchange(true)) return;
  void* const library = ::dlopen(path, RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
  void* const open = library == nullptr ? nullptr : ::dlsym(library, "ebb_host_open");
  if (open != nullptr) return reinterpret_cast<void (*)()>(open)();
  static constexpr char kText[] = "ebb: the files that this program maps are not managed: ";
  const char* const why = ::dlerror();
  ::syscall(SYS_write, STDERR_FILENO, kText, sizeof kText - 1);
  if (why != nullptr) ::syscall(SYS_write, STDERR_FILENO, why, ::strlen(why));
  ::syscall(SYS_write, STDERR_FILENO, "\n", 1);
}

}  // namespace

void* map_file(int fd, std::size_t bytes, int protection, int flags, off_t offset) {
  if (!can_be_managed(fd, protection, flags)) return nullptr;
  if (g_in_use.load(std::memory_order_acquire) == nullptr) load_host(bytes);
  const Files* const files = g_in_use.load(std::memory_order_acquire);
  if (files == nullptr) return nullptr;
  return files->map(files->context, fd, bytes, offset, is_shared(flags));
}

unsigned mapped_kinds(const void* data, std::size_t bytes) {
  const Files* const files = g_in_use.load(std::memory_order_acquire);
  return files == nullptr ? kMappedNoFile : files->kinds(files->context, data, bytes);
}

int discard_mapped(void* data, std::size_t bytes) {
  const Files* const files = g_in_use.load(std::memory_order_acquire);
  return files == nullptr ? EINVAL : files->discard(files->context, data, bytes);
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
