// Placement: nodes between host memory and a GPU.
//
// Any thread. A copy keeps shape, strides and gaps.
#pragma once

#include <memory>

#include "array/graph/node.h"
#include "array/pass/program.h"

namespace ebb::array {

// A ready node in the memory of a GPU, or of the host (null): itself if it lies there, or is a number.
NodePtr moved(const NodePtr& node, const std::shared_ptr<CudaStream>& device);
Combined on_host(Combined combined);
// Bytes to the begin of memory that nobody else uses yet.
void write_bytes(const Storage& storage, const void* data, std::size_t bytes);

}  // namespace ebb::array
