// How many processors this process may use.
#pragma once

#include <sched.h>

#include <algorithm>
#include <cstdint>

namespace ebb {

inline std::uint32_t usable_processors() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return static_cast<std::uint32_t>(std::max(CPU_COUNT(&set), 1));
}

}  // namespace ebb
