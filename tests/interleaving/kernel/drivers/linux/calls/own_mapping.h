// The driver's own changes of mappings, of the SimulatedKernel: none is left once renew() cannot fail.
#pragma once

#include <sys/mman.h>

#include <cstddef>

namespace ebb::own {

inline int madvise(void*, std::size_t, int) { return -1; }

}  // namespace ebb::own
