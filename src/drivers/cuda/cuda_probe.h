// What CUDA offers on this machine, for people: its devices, and whether host memory can be pinned for one.
//
// Each function starts the driver in this process and leaves no context behind. One thread.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ebb/status.h"

namespace ebb::cuda {

struct GpuFacts {
  std::string name;
  std::size_t memory_bytes = 0;
  int capability = 0;             // 90 for 9.0
  bool virtual_memory = false;    // cuMemMap and what goes with it: tensors can live there
  bool pageable_access = false;   // it reads any memory of a process (HMM, ATS)
  bool host_page_tables = false;  // by the page tables of the host (ATS)
};

struct CudaFacts {
  int version = 0;  // of CUDA, that the driver has: 12040 for 12.4
  std::vector<GpuFacts> gpus;
};

// kUnsupported with a sentence in `reason` that says what to do about it; kIoError: the driver is there and fails.
Status probe(const std::string& library, CudaFacts& facts, std::string& reason);
// Pins so many bytes of host memory for the first GPU, and lets go of them.
Status probe_pinning(const std::string& library, std::size_t bytes, std::string& reason);

}  // namespace ebb::cuda
