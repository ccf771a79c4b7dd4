// What CUDA offers on this machine, for people: its devices, and whether host memory can be pinned for one.
//
// Each function starts the driver in this process and leaves no context behind. One thread.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "drivers/cuda/cuda_gpu.h"

namespace ebb::cuda {

struct CudaFacts {
  int version = 0;  // of CUDA, that the driver has: 12040 for 12.4
  std::vector<GpuFacts> gpus;
};

// kUnsupported with a sentence in `reason` that says what to do about it; kIoError: the driver is there and fails.
Status probe(const std::string& library, CudaFacts& facts, std::string& reason);
// Pins so many bytes of host memory for the first GPU, and lets go of them.
Status probe_pinning(const std::string& library, std::size_t bytes, std::string& reason);

}  // namespace ebb::cuda
