// See soft_host.h.
#include "soft_host.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>

namespace ebb::soft {
namespace {

constexpr std::uintptr_t kPage = 4096;

struct Area {
  unsigned long begin = 0, end = 0;
  char access[8] = {};
  bool allows(bool write) const { return access[0] == 'r' && (!write || access[1] == 'w'); }
};

// In memory or in swap, which the kernel reads back by itself.
bool present(std::uintptr_t begin, std::uintptr_t end) {
  const int file = ::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  bool all = file >= 0;
  for (std::uintptr_t page = begin / kPage; all && page < (end + kPage - 1) / kPage; ++page) {
    std::uint64_t entry = 0;
    all = ::pread(file, &entry, sizeof entry, static_cast<off_t>(page * sizeof entry)) == sizeof entry &&
          (entry >> 62) != 0;
  }
  if (file >= 0) ::close(file);
  return all;
}

}  // namespace

bool host_accessible(const Touch& touch) {
  auto at = reinterpret_cast<std::uintptr_t>(touch.address);
  const std::uintptr_t end = at + touch.bytes;
  std::ifstream file("/proc/self/smaps");
  std::string line;
  Area area;
  while (at < end && std::getline(file, line)) {
    Area found;
    if (std::sscanf(line.c_str(), "%lx-%lx %7s", &found.begin, &found.end, found.access) == 3) area = found;
    if (line.rfind("VmFlags:", 0) != 0 || area.end <= at) continue;
    const std::uintptr_t until = std::min<std::uintptr_t>(area.end, end);
    if (area.begin > at || !area.allows(touch.write)) return false;
    const bool is_served = line.find(" um") != std::string::npos;  // absent pages are a userfaultfd's
    if (is_served && !present(at, until)) return false;
    at = until;
  }
  return at >= end;
}

}  // namespace ebb::soft
