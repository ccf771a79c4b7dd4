// See process_map.h. The structures are those of the kernel's interface, Linux 6.7 and 6.11: the header of Debian 12 is
// older.
#include "drivers/linux/process/process_map.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "drivers/linux/process/reservation.h"

namespace ebb {
namespace {

struct ScanArgument {
  std::uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages, inverted, mask, any_of, returned;
};
struct Region {
  std::uint64_t start, end, categories;
};
struct QueryArgument {
  std::uint64_t size, query_flags, address, begin, end, flags, page_bytes, offset, inode;
  std::uint32_t major, minor, name_size, build_id_size;
  std::uint64_t name, build_id;
};
constexpr unsigned long kIoctlScan = _IOWR('f', 16, ScanArgument);
constexpr unsigned long kIoctlQuery = _IOWR('f', 17, QueryArgument);
constexpr std::uint64_t kReadable = 1, kWritable = 2, kExecutable = 4, kShared = 8;
constexpr std::uint64_t kEntryPresent = 1ull << 63, kEntrySwapped = 1ull << 62, kEntryFile = 1ull << 61;

// The kernel names memory without a file in brackets, and drivers' pages as files of its own.
Mapping::Kind kind_of(const char* name, std::uint64_t inode) {
  const auto starts = [name](const char* text) { return std::strncmp(name, text, std::strlen(text)) == 0; };
  if (starts("anon_inode:") || starts("/dev/dri") || starts("/dev/nvidia")) return Mapping::Kind::kSpecial;
  if (inode != 0) return starts("/dev/zero (deleted)") ? Mapping::Kind::kAnonymous : Mapping::Kind::kFile;
  if (name[0] == '\0' || starts("[heap]") || starts("[stack") || starts("[anon")) return Mapping::Kind::kAnonymous;
  return Mapping::Kind::kSpecial;  // [vdso], [vvar], [uprobes]
}

}  // namespace

Status ProcessMap::open(ProcessMap& map) {
  map.maps_ = FileDescriptor(::open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
  map.pagemap_ = FileDescriptor(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  return map.maps_.valid() && map.pagemap_.valid() ? Status::kOk : Status::kUnsupported;
}

bool ProcessMap::find(std::uintptr_t address, Mapping& mapping) const {
  mapping.name[0] = '\0';
  QueryArgument query{};
  query.size = sizeof query;
  query.address = address;
  char name[4096];
  query.name = reinterpret_cast<std::uintptr_t>(name);
  query.name_size = sizeof name;
  name[0] = '\0';
  if (::ioctl(maps_.get(), kIoctlQuery, &query) != 0) {
    return errno == ENOTTY && find_in_text(address, mapping);
  }
  mapping.begin = query.begin;
  mapping.end = query.end;
  mapping.readable = (query.flags & kReadable) != 0;
  mapping.writable = (query.flags & kWritable) != 0;
  mapping.executable = (query.flags & kExecutable) != 0;
  mapping.shared = (query.flags & kShared) != 0;
  mapping.kind = kind_of(name, query.inode);
  mapping.page_bytes = query.page_bytes;
  const std::size_t length = std::min(::strnlen(name, sizeof name), sizeof mapping.name - 1);
  std::memcpy(mapping.name, name, length);
  mapping.name[length] = '\0';
  return true;
}

std::string ProcessMap::describe(std::uintptr_t address) const {
  Mapping mapping;
  if (!find(address, mapping)) return "nothing is mapped there";
  char text[256];
  std::snprintf(text, sizeof text, "in the mapping 0x%" PRIxPTR "-0x%" PRIxPTR " %c%c%c%c %s", mapping.begin,
                mapping.end, mapping.readable ? 'r' : '-', mapping.writable ? 'w' : '-', mapping.executable ? 'x' : '-',
                mapping.shared ? 's' : 'p', mapping.name[0] != '\0' ? mapping.name : "(anonymous)");
  return text;
}

// Pages of a mapping that lie beyond the end of its file kill who touches them, whatever the permissions. Shared memory
// is not asked about: somebody's fault handler may be to serve it, and the question would be a touch.
bool ProcessMap::past_end_of_file(const Mapping& mapping, std::uintptr_t last) const {
  if (mapping.kind != Mapping::Kind::kFile) return false;
  for (const char* shared : {"/memfd:", "/dev/shm/", "/SYSV"}) {
    if (std::strncmp(mapping.name, shared, std::strlen(shared)) == 0) return false;
  }
  char byte = 0;
  return page(last) == 0 && read_process(&byte, last, 1) == -1 && errno == EFAULT;
}

std::string ProcessMap::complaint(std::uintptr_t begin, std::size_t bytes, bool write) const {
  for (std::uintptr_t at = begin; at < begin + bytes;) {
    Mapping mapping;
    const bool permitted = find(at, mapping) && mapping.readable && (mapping.writable || !write);
    const std::uintptr_t end = permitted ? std::min(mapping.end, begin + bytes) : at;
    if (permitted && !past_end_of_file(mapping, end - 1)) {
      at = end;
      continue;
    }
    char text[64];
    std::snprintf(text, sizeof text, "0x%" PRIxPTR " cannot be: ", permitted ? end - 1 : at);
    return text + describe(at) + (permitted ? ", beyond the end of the file" : "");
  }
  return "";
}

bool ProcessMap::find_in_text(std::uintptr_t address, Mapping& mapping) const {
  std::array<char, 8192> text;
  std::size_t held = 0;
  for (off_t offset = 0;;) {
    const ssize_t got = ::pread(maps_.get(), text.data() + held, text.size() - 1 - held, offset);
    if (got <= 0) return false;
    offset += got;
    held += static_cast<std::size_t>(got);
    text[held] = '\0';
    char* line = text.data();
    for (char* end = nullptr; (end = std::strchr(line, '\n')) != nullptr; line = end + 1) {
      *end = '\0';
      unsigned long begin = 0, past = 0, inode = 0;
      char flags[5] = {};
      int name_at = 0;
      if (std::sscanf(line, "%lx-%lx %4s %*s %*s %lu %n", &begin, &past, flags, &inode, &name_at) < 4) continue;
      if (address < begin || address >= past) continue;
      mapping.begin = begin;
      mapping.end = past;
      mapping.readable = flags[0] == 'r';
      mapping.writable = flags[1] == 'w';
      mapping.executable = flags[2] == 'x';
      mapping.shared = flags[3] == 's';
      mapping.kind = kind_of(line + name_at, inode);
      std::snprintf(mapping.name, sizeof mapping.name, "%.95s", line + name_at);
      return true;
    }
    held = static_cast<std::size_t>(text.data() + held - line);
    std::memmove(text.data(), line, held);
  }
}

std::uint64_t ProcessMap::page(std::uintptr_t address) const {
  ScanArgument scan{};
  Region region{};
  scan.size = sizeof scan;
  scan.start = address & ~(kPageBytes - 1);
  scan.end = scan.start + kPageBytes;
  scan.vec = reinterpret_cast<std::uintptr_t>(&region);
  scan.vec_len = 1;
  scan.returned = kFile | kPresent | kSwapped | kZero | kHuge;
  const int found = ::ioctl(pagemap_.get(), kIoctlScan, &scan);
  if (found >= 0) return found > 0 ? region.categories : 0;
  std::uint64_t entry = 0;
  const auto offset = static_cast<off_t>(address / kPageBytes * sizeof entry);
  if (::pread(pagemap_.get(), &entry, sizeof entry, offset) != sizeof entry) return 0;
  return ((entry & kEntryPresent) != 0 ? kPresent : 0) | ((entry & kEntrySwapped) != 0 ? kSwapped : 0) |
         ((entry & kEntryFile) != 0 ? kFile : 0);
}

bool ProcessMap::present_run(std::uintptr_t begin, std::size_t bytes, std::size_t& run) const {
  const std::uintptr_t first = begin & ~(kPageBytes - 1);
  const std::uintptr_t end = (begin + bytes + kPageBytes - 1) & ~(kPageBytes - 1);
  ScanArgument scan{};
  Region region{};
  scan.size = sizeof scan;
  scan.start = first;
  scan.end = end;
  scan.vec = reinterpret_cast<std::uintptr_t>(&region);
  scan.vec_len = 1;
  scan.any_of = kPresent | kSwapped;
  const int found = ::ioctl(pagemap_.get(), kIoctlScan, &scan);
  if (found < 0) {
    const bool present = (page(begin) & (kPresent | kSwapped)) != 0;
    run = std::min<std::size_t>(bytes, first + kPageBytes - begin);
    return present;
  }
  const bool present = found > 0 && region.start == first;
  const std::uintptr_t until = present ? region.end : found > 0 ? region.start : end;
  run = std::min<std::size_t>(bytes, until - begin);
  return present;
}

long read_process(void* to, std::uintptr_t from, std::size_t bytes) {
  iovec local{to, bytes};
  iovec remote{reinterpret_cast<void*>(from), bytes};
  return ::syscall(SYS_process_vm_readv, ::getpid(), &local, 1UL, &remote, 1UL, 0UL);
}

long write_process(std::uintptr_t to, const void* from, std::size_t bytes) {
  iovec local{const_cast<void*>(from), bytes};
  iovec remote{reinterpret_cast<void*>(to), bytes};
  return ::syscall(SYS_process_vm_writev, ::getpid(), &local, 1UL, &remote, 1UL, 0UL);
}

}  // namespace ebb
