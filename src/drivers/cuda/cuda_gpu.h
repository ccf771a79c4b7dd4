// Gpu: a driver that has started, one of its GPUs, and that GPU's primary context, which PyTorch uses too.
//
// Owned by a device, which calls let_go() at its end unless the GPU is lost. One thread at a time.
#pragma once

#include <string>

#include "drivers/cuda/cuda_api.h"

namespace ebb::cuda {

struct GpuFacts {
  std::string name;
  std::size_t memory_bytes = 0;   // that probe() has found
  int capability = 0;             // 90 for 9.0
  bool virtual_memory = false;    // cuMemMap and what goes with it: tensors can live there
  bool pageable_access = false;   // it reads any memory of a process (HMM, ATS)
  bool host_page_tables = false;  // by the page tables of the host (ATS)
};

struct Gpu : GpuFacts {
  Api api;
  Device device = 0;
  Context context = nullptr;

  // All but the context: kInvalid, kUnsupported, with a sentence in `reason` that says what to do about it.
  Status find(const std::string& library, int ordinal, std::string& reason);
  // Retains the context, and gives it back. kNoMemory, kUnsupported.
  Status enter(std::string& reason);
  void let_go();
  // The status that an error comes to, and in `reason` what failed and what CUDA said.
  Status refuse(Result error, const std::string& what, std::string& reason) const;
};

}  // namespace ebb::cuda
