// Gpu: a driver that has started, one of its GPUs, and that GPU's primary context, which PyTorch uses too.
//
// Owned by a device, which calls let_go() at its end unless the GPU is lost. One thread at a time.
#pragma once

#include <string>

#include "drivers/cuda/cuda_api.h"

namespace ebb::cuda {

struct Gpu {
  Api api;
  Device device = 0;
  Context context = nullptr;
  std::string name;
  bool virtual_memory = false;  // whether it has the virtual memory API

  // All but the context: kInvalid, kUnsupported, with a sentence in `reason` that says what to do about it.
  Status find(const std::string& library, int ordinal, std::string& reason);
  // Retains the context, and gives it back. kNoMemory, kUnsupported.
  Status enter(std::string& reason);
  void let_go();
  // The status that an error comes to, and in `reason` what failed and what CUDA said.
  Status refuse(Result error, const std::string& what, std::string& reason) const;
};

}  // namespace ebb::cuda
