// See foreign.h.
#include "stream/foreign.h"

#include <cinttypes>
#include <cstdio>

namespace ebb {

ForeignMemory::ForeignMemory() : known_(ProcessMap::open(map_) == Status::kOk) {}

std::string ForeignMemory::complaint(const Runtime& runtime, std::span<const Access> accesses) const {
  for (const Access& access : accesses) {
    if (!known_ || runtime.manages(access.data)) continue;
    const auto begin = reinterpret_cast<std::uintptr_t>(access.data);
    const std::string found = map_.complaint(begin, access.bytes, access.written);
    if (found.empty()) continue;
    char text[128];
    std::snprintf(text, sizeof text, "it %s %zu bytes at 0x%" PRIxPTR ", of which ",
                  access.written ? "writes" : "reads", access.bytes, begin);
    return text + found + "; pass memory that is mapped so until the launch is over";
  }
  return "";
}

}  // namespace ebb
