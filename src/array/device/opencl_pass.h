// The elementwise pass on an OpenCL device: the expression as generated source, over memory where it lies.
//
// Called with evaluation_mutex() held, as the other passes. Invariant: what runs here gives the bits of the CPU for
// arithmetic, comparisons and conversions; an expression for which the device cannot promise that is left to the CPU.
#pragma once

#include <cstdint>

#include "array/pass/pass.h"

namespace ebb::array {

// `node` is a lazy elementwise one, `target` in C order. False: nothing has happened, and the CPU is to run it.
bool opencl_pass(const NodePtr& node, const Target& target);
std::uint64_t opencl_passes_run();

}  // namespace ebb::array
