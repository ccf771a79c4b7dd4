// What single calls of the CUDA driver cost, idle and while a long kernel runs: what a runtime on it may do how often.
// The benchmark's; one thread.
#pragma once

#include <cstddef>
#include <string>

#include "drivers/cuda/cuda_api.h"
#include "drivers/cuda/cuda_device.h"

namespace ebb {

// Measures on a device of at least 64 frames, all created and none of them mapped, with its context current. One JSON
// object: microseconds (`_us`), gigabytes a second (`_gb_s`) or seconds a GiB (`_s_gib`), medians of some rounds.
std::string measure_mapping(const cuda::Api& api, CudaDevice& device, std::size_t block_bytes);  // of that alone
std::string measure_costs(const cuda::Api& api, CudaDevice& device, std::size_t block_bytes);

}  // namespace ebb
