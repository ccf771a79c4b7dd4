// See uses.h.
#include "stream/uses.h"

#include <algorithm>
#include <limits>

namespace ebb {

std::vector<UsedBytes> used_bytes(const std::string& launch, std::span<const Use> uses) {
  std::vector<UsedBytes> used;
  used.reserve(uses.size());
  for (const Use& use : uses) {
    const auto begin = reinterpret_cast<std::uintptr_t>(use.data);
    if (use.data == nullptr && use.bytes > 0) {
      throw Error(Status::kInvalid, "launch '" + launch + "' uses " + format_size(use.bytes) +
                                        " at a null pointer; pass what Runtime::allocate() returned");
    }
    if (use.bytes > std::numeric_limits<std::uintptr_t>::max() - begin) {
      throw Error(Status::kInvalid, "launch '" + launch + "' uses " + format_size(use.bytes) +
                                        ", more than there are addresses after the pointer; check the count");
    }
    const bool reads = use.kind == Use::Kind::kReads || use.kind == Use::Kind::kUpdates;
    used.push_back(
        {begin, begin + use.bytes, reads, use.kind != Use::Kind::kReads, use.kind == Use::Kind::kOverwrites});
  }
  // What is overwritten here and read there is updated, whatever was said.
  for (UsedBytes& use : used) {
    if (!use.whole) continue;
    use.whole = std::none_of(used.begin(), used.end(), [&](const UsedBytes& other) {
      return other.reads && other.begin < use.end && use.begin < other.end;
    });
    use.reads = !use.whole;
  }
  return used;
}

std::vector<Access> accesses_of(std::span<const Use> uses, std::span<const UsedBytes> used) {
  std::vector<Access> accesses;
  accesses.reserve(uses.size());
  for (std::size_t i = 0; i < uses.size(); ++i) {
    if (uses[i].bytes == 0) continue;
    Access access;
    access.data = uses[i].data;
    access.bytes = uses[i].bytes;
    access.allocation = uses[i].allocation != nullptr ? uses[i].allocation : uses[i].data;
    access.written = used[i].writes;
    access.overwritten = used[i].whole;
    accesses.push_back(access);
  }
  return accesses;
}

}  // namespace ebb
