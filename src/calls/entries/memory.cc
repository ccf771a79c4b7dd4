// The interposed calls that change mappings. What a program does to its own managed memory has the effect that it has
// on ordinary memory, or is refused here, where it is called: behind the back of the runtime, which moves the pages,
// the kernel would do it to some of them.
//
// Without the C library's: there is no more to these than the call itself, and allocators make them before anything can
// be looked up.
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "calls/entries/entry.h"
#include "calls/mapped.h"
#include "calls/ranges.h"
#include "calls/refusal.h"
#include "calls/shared_memory.h"

namespace ebb::calls {
namespace {

constexpr std::size_t kPageBytes = 4096;
// Of kernels newer than the headers.
constexpr int kDontneedLocked = 24;
constexpr int kCollapse = 25;

bool meets_ours(const void* data, std::size_t bytes) {
  return g_our_hull.meets(data, bytes) && registered(data, bytes, kOurs);
}

int as_int(long result) { return static_cast<int>(result); }
void* as_pointer(long result) { return reinterpret_cast<void*>(result); }  // of syscall(): MAP_FAILED is -1

// Calls `ours(data, bytes)` or `theirs(data, bytes)` with each piece, until one fails.
template <typename Ours, typename Theirs>
int for_each_segment(char* data, std::size_t bytes, Ours&& ours, Theirs&& theirs) {
  while (bytes > 0) {
    const Segment segment = segment_at(data, bytes, kOurs);
    const int result = segment.registered ? ours(data, segment.bytes) : theirs(data, segment.bytes);
    if (result != 0) return result;
    data += segment.bytes;
    bytes -= segment.bytes;
  }
  return 0;
}

// The length in whole pages, or false with errno: what the kernel would say of it.
bool whole_pages(const void* data, std::size_t& bytes) {
  const bool aligned = reinterpret_cast<std::uintptr_t>(data) % kPageBytes == 0;
  if (!aligned || bytes > SIZE_MAX - kPageBytes) {
    errno = EINVAL;
    return false;
  }
  bytes = (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  return true;
}

int fail_with(int error) {
  errno = error;
  return -1;
}

// Drops what was written, or zeros.
int discard(char* data, std::size_t bytes, unsigned kinds) {
  if (kinds == kMappedNoFile) {
    ::memset(data, 0, bytes);
    return 0;
  }
  const int error = discard_mapped(data, bytes);
  return error == 0 ? 0 : fail_with(error);
}

// What the kernel makes of it depends on whether a file is mapped there.
int advise_by_kind(char* data, std::size_t bytes, int advice) {
  const unsigned kinds = mapped_kinds(data, bytes);
  const bool file = kinds != kMappedNoFile;
  switch (advice) {
    case MADV_DONTNEED:
    case kDontneedLocked: return discard(data, bytes, kinds);
    case MADV_FREE: return file ? fail_with(EINVAL) : 0;  // allows both: what was there, and zeros
    case MADV_POPULATE_WRITE: return (kinds & kMappedShared) != 0 ? fail_with(EINVAL) : 0;
    default: return file ? fail_with(EACCES) : refuse(Refusal::kAdvice, EINVAL);  // MADV_REMOVE
  }
}

int advise(char* data, std::size_t bytes, int advice) {
  switch (advice) {
    case MADV_DONTNEED:
    case kDontneedLocked:
    case MADV_FREE:
    case MADV_POPULATE_WRITE:
    case MADV_REMOVE: return advise_by_kind(data, bytes, advice);
    // How the memory is backed is the runtime's choice; a child sees all of it, as of ordinary memory.
    case MADV_NORMAL:
    case MADV_RANDOM:
    case MADV_SEQUENTIAL:
    case MADV_WILLNEED:
    case MADV_DONTFORK:
    case MADV_DOFORK:
    case MADV_KEEPONFORK:
    case MADV_MERGEABLE:
    case MADV_UNMERGEABLE:
    case MADV_HUGEPAGE:
    case MADV_NOHUGEPAGE:
    case MADV_DONTDUMP:
    case MADV_DODUMP:
    case MADV_COLD:
    case MADV_PAGEOUT:
    case MADV_POPULATE_READ:
    case kCollapse: return 0;
    default: return refuse(Refusal::kAdvice, EINVAL);  // WIPEONFORK, GUARD_INSTALL, what is not known yet
  }
}

[[gnu::noinline]] int advise_managed(void* data, std::size_t bytes, int advice) {
  if (!whole_pages(data, bytes)) return -1;
  return for_each_segment(
      static_cast<char*>(data), bytes, [advice](char* at, std::size_t part) { return advise(at, part, advice); },
      [advice](char* at, std::size_t part) { return as_int(::syscall(SYS_madvise, at, part, advice)); });
}

// It stays readable and writable. A file that was mapped to be read only is that anyhow, and nobody may write to one
// that is shared.
int protect(const char* data, std::size_t bytes, int protection) {
  constexpr int kAsItIs = PROT_READ | PROT_WRITE;
  if (protection == kAsItIs) return (mapped_kinds(data, bytes) & kMappedShared) != 0 ? fail_with(EACCES) : 0;
  if (protection == PROT_READ && (mapped_kinds(data, bytes) & kMappedNoFile) == 0) return 0;
  return refuse(Refusal::kProtect, EACCES);
}

[[gnu::noinline]] int protect_managed(void* data, std::size_t bytes, int protection, int key) {
  if (!whole_pages(data, bytes)) return -1;
  constexpr int kNoKey = -1;
  return for_each_segment(
      static_cast<char*>(data), bytes,
      [=](char* at, std::size_t part) {
        return key == kNoKey ? protect(at, part, protection) : refuse(Refusal::kProtect, EACCES);
      },
      [=](char* at, std::size_t part) {
        return as_int(key == kNoKey ? ::syscall(SYS_mprotect, at, part, protection)
                                    : ::syscall(SYS_pkey_mprotect, at, part, protection, key));
      });
}

}  // namespace

extern "C" {

EBB_ENTRY int madvise(void* data, std::size_t bytes, int advice) noexcept {
  if (g_our_hull.meets(data, bytes)) return advise_managed(data, bytes, advice);
  return as_int(::syscall(SYS_madvise, data, bytes, advice));
}

EBB_ENTRY int mprotect(void* data, std::size_t bytes, int protection) noexcept {
  constexpr int kNoKey = -1;
  if (g_our_hull.meets(data, bytes)) return protect_managed(data, bytes, protection, kNoKey);
  return as_int(::syscall(SYS_mprotect, data, bytes, protection));
}

EBB_ENTRY int pkey_mprotect(void* data, std::size_t bytes, int protection, int key) noexcept {
  if (g_our_hull.meets(data, bytes)) return protect_managed(data, bytes, protection, key);
  return as_int(::syscall(SYS_pkey_mprotect, data, bytes, protection, key));
}

EBB_ENTRY void* mmap(void* at, std::size_t bytes, int protection, int flags, int fd, off_t offset) noexcept {
  const bool over = (flags & MAP_FIXED) != 0 && (flags & MAP_FIXED_NOREPLACE) != MAP_FIXED_NOREPLACE;
  if (over && meets_ours(at, bytes)) return as_pointer(refuse(Refusal::kMapOver, EINVAL));
  if (void* const mapped = fd < 0 ? nullptr : map_file(fd, bytes, protection, flags, offset)) return mapped;
  void* const mapped = as_pointer(::syscall(SYS_mmap, at, bytes, protection, flags, fd, offset));
  if (mapped != MAP_FAILED) shared_memory_mapped(mapped, bytes, flags, fd);
  return mapped;
}

EBB_ENTRY int munmap(void* data, std::size_t bytes) noexcept {
  if (meets_ours(data, bytes)) return unmap_file(data, bytes) ? 0 : refuse(Refusal::kUnmap, EINVAL);
  shared_memory_unmapped(data);
  return as_int(::syscall(SYS_munmap, data, bytes));
}

EBB_ENTRY void* mremap(void* data, std::size_t bytes, std::size_t new_bytes, int flags, ...) noexcept {
  void* to = nullptr;
  if ((flags & MREMAP_FIXED) != 0) {
    va_list rest;
    va_start(rest, flags);
    to = va_arg(rest, void*);
    va_end(rest);
    if (meets_ours(to, new_bytes)) return as_pointer(refuse(Refusal::kMapOver, EINVAL));
  }
  if (meets_ours(data, bytes)) return as_pointer(refuse(Refusal::kRemap, EINVAL));
  return as_pointer(::syscall(SYS_mremap, data, bytes, new_bytes, flags, to));
}

EBB_ENTRY int mlock(const void* data, std::size_t bytes) noexcept {
  if (meets_ours(data, bytes)) return refuse(Refusal::kLock, ENOMEM);
  return as_int(::syscall(SYS_mlock, data, bytes));
}

EBB_ENTRY int mlock2(const void* data, std::size_t bytes, unsigned flags) noexcept {
  if (meets_ours(data, bytes)) return refuse(Refusal::kLock, ENOMEM);
  return as_int(::syscall(SYS_mlock2, data, bytes, flags));
}

// What was never locked is unlocked.
EBB_ENTRY int munlock(const void* data, std::size_t bytes) noexcept {
  if (!meets_ours(data, bytes)) return as_int(::syscall(SYS_munlock, data, bytes));
  auto* const begin = static_cast<char*>(const_cast<void*>(data));
  return for_each_segment(
      begin, bytes, [](char*, std::size_t) { return 0; },
      [](char* at, std::size_t part) { return as_int(::syscall(SYS_munlock, at, part)); });
}

// The kernel would bring in all addresses of the space, used or not.
EBB_ENTRY int mlockall(int flags) noexcept {
  if (!g_our_hull.empty()) return refuse(Refusal::kLock, ENOMEM);
  return as_int(::syscall(SYS_mlockall, flags));
}

// Of libnuma. On which node a frame lies is the runtime's choice.
EBB_ENTRY long mbind(void* data, unsigned long bytes, int mode, const unsigned long* nodes, unsigned long nodes_max,
                     unsigned flags) {
  if (!meets_ours(data, bytes)) return ::syscall(SYS_mbind, data, bytes, mode, nodes, nodes_max, flags);
  return for_each_segment(
      static_cast<char*>(data), bytes, [](char*, std::size_t) { return 0; },
      [=](char* at, std::size_t part) {
        return as_int(::syscall(SYS_mbind, at, part, mode, nodes, nodes_max, flags));
      });
}

}  // extern "C"

EBB_ALIAS(mmap64, mmap);

}  // namespace ebb::calls
