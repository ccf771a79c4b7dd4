// The operator observer of a device: announces each operator that starts kernels, in the current stream, and keeps it
// announced until all its kernels have been given to the stream. There are no faults to make up for what is missed.
//
// Operators nest. Those that only call others are not announced, the others are; what an operator has made while it ran
// stays in place until the outermost of them is over (allocations.h).
//
// Runs on whichever thread runs the operator. PyTorch swallows what a callback throws: an operator whose launch is
// refused finds storages that give no address, but throw the reason.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "bindings/torch_device/managed_device.h"

namespace ebb::torch_adapter {

void install_device_observer();

// For kernels that are no operators, such as Triton's: what they use stays until end_launch(). Throws Error.
std::uint64_t begin_launch(const std::vector<at::Tensor>& tensors, const std::string& name);
void end_launch(std::uint64_t ticket);

}  // namespace ebb::torch_adapter
