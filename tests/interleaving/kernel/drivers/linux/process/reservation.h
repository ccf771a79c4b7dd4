// Reservation of the SimulatedKernel: the addresses of the Gate.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

#include "ebb/status.h"
#include "interleaving/kernel/simulated_kernel.h"

namespace ebb {

inline constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

class Reservation {
 public:
  static Status make(std::size_t bytes, int, Reservation& reservation) {
    reservation.bytes_ = bytes;
    return Status::kOk;
  }
  // What is watched tells of its end.
  Status renew(std::byte*, std::size_t, int) {
    interleaving::SimulatedKernel& kernel = *interleaving::g_kernel;
    kernel.unmap(kernel.gate);
    kernel.gate = {interleaving::SimulatedKernel::kNone, true, false, false};
    return Status::kOk;
  }
  void forget() { bytes_ = 0; }
  std::byte* data() const {
    return bytes_ > 0 ? reinterpret_cast<std::byte*>(interleaving::SimulatedKernel::kGate) : nullptr;
  }
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_ = 0;
};

}  // namespace ebb
