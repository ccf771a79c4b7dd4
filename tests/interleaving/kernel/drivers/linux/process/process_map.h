// ProcessMap of the SimulatedKernel.
#pragma once

#include <cstddef>
#include <cstdint>

#include "interleaving/kernel/simulated_kernel.h"

namespace ebb {

// Asked about the driver's own addresses only.
class ProcessMap {
 public:
  static constexpr std::uint64_t kHuge = 1 << 6;

  std::uint64_t page(std::uintptr_t address) const { return interleaving::g_kernel->at(address).huge ? kHuge : 0; }
  bool present_run(std::uintptr_t begin, std::size_t bytes, std::size_t& run) const {
    run = bytes;
    return interleaving::g_kernel->at(begin).content != interleaving::SimulatedKernel::kNone;
  }
};

}  // namespace ebb
