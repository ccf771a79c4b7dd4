// Collective operators (c10d): their kernels run in a stream of the process group's. Any thread.
#pragma once

#include <ATen/core/ivalue.h>

#include <vector>

namespace ebb::torch_adapter {

// Lets the current stream wait for a collective that has returned these, as its Work's wait() does; then what its
// stream uses is over when the current stream says so. It takes as long as the process group's timeout at most.
void wait_for_collective(const std::vector<c10::IValue>& outputs);

}  // namespace ebb::torch_adapter
