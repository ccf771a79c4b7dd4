// Compiler: CUDA C to what a driver loads, for one kind of GPU, by NVRTC: its machine code where NVRTC knows the GPU,
// because any driver that knows it too takes that; else PTX of the newest kind before it, which the driver compiles.
//
// Immutable after make(); any thread.
#pragma once

#include <string>

#include "drivers/cuda/kernels/nvrtc_api.h"

namespace ebb::cuda {

class Compiler {
 public:
  // For GPUs of compute capability `capability` (90 for 9.0). kUnsupported with a sentence in `reason`.
  static Status make(const std::string& library, int capability, Compiler& compiler, std::string& reason);
  // The image of a program. Throws Error(kInvalid) with what NVRTC said.
  std::string compile(const std::string& source) const;

 private:
  Nvrtc api_;
  std::string architecture_;  // the option
  bool machine_code_ = false;
};

}  // namespace ebb::cuda
