// Userfault of the SimulatedKernel.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ebb/status.h"
#include "interleaving/kernel/simulated_kernel.h"

namespace ebb {

class Userfault {
 public:
  struct Moved {
    std::size_t bytes = 0;
    int error = 0;
  };
  explicit Userfault(bool tells_events) : tells_events_(tells_events) {}

  bool quiet() const { return interleaving::g_kernel->changing.load() == 0; }
  int watch(const void* address, std::size_t) const { return set(address, true); }
  int unwatch(const void* address, std::size_t) const {
    return interleaving::g_kernel->unwatches ? set(address, false) : 0;
  }
  Moved move(void* to, const void* from, std::size_t bytes) const {
    const int error = interleaving::g_kernel->move(tells_events_, reinterpret_cast<std::uintptr_t>(to),
                                                   reinterpret_cast<std::uintptr_t>(from));
    return {error == 0 ? bytes : 0, error};
  }

 private:
  static int set(const void* address, bool watched) {
    interleaving::g_kernel->at(reinterpret_cast<std::uintptr_t>(address)).watched = watched;
    return 0;
  }
  bool tells_events_;
};

}  // namespace ebb
