// The threads among which PyTorch divides an operator. Each thread that runs operators has a team of its own, and only
// PyTorch can call them.
#pragma once

#include "ebb/runtime.h"

namespace ebb::torch_adapter {

// Calls Runtime::prepare_thread() in the team of the calling thread, once, and again when there are more of them.
// Before an operator; outside of one that is divided.
void prepare_pool_threads(Runtime& runtime) noexcept;

}  // namespace ebb::torch_adapter
