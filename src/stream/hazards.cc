// See hazards.h.
#include "stream/hazards.h"

#include <algorithm>

namespace ebb {

void Hazards::add(std::uint64_t launch, std::span<const UsedBytes> uses, std::vector<std::uint64_t>& after) {
  const auto come_after = [&](std::uint64_t other) {
    if (other != 0 && other != launch) after.push_back(other);
  };
  // Its writes last: they end the lists of readers.
  for (const UsedBytes& use : uses) {
    if (use.writes) continue;
    users_.cover(use.begin, use.end, [&](Users& users) {
      come_after(users.writer);
      if (users.readers.empty() || users.readers.back() != launch) users.readers.push_back(launch);
    });
  }
  for (const UsedBytes& use : uses) {
    if (!use.writes) continue;
    users_.cover(use.begin, use.end, [&](Users& users) {
      come_after(users.writer);
      for (const std::uint64_t reader : users.readers) come_after(reader);
      users.writer = launch;
      users.readers.clear();
    });
  }
}

void Hazards::remove(std::uint64_t launch, std::span<const UsedBytes> uses) {
  for (const UsedBytes& use : uses) {
    users_.erase_if(use.begin, use.end, [&](Users& users) {
      if (users.writer == launch) users.writer = 0;
      std::erase(users.readers, launch);
      return users.writer == 0 && users.readers.empty();
    });
  }
}

}  // namespace ebb
