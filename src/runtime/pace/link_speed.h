// How fast a device's link is: what a plan takes a block from host memory to take.
//
// Called once, by who opens a runtime, before anything else uses the device; waits for some milliseconds.
#pragma once

#include <cstddef>

#include "port/gpu_device.h"

namespace ebb {

// Bytes a nanosecond (GB/s) of copies of blocks from host memory, by the device's own clock; 0: it cannot be told.
double measure_link(GpuDevice& device, std::size_t block_bytes);

}  // namespace ebb
