// Passes into memory of a GPU: elementwise expressions as generated kernels over pieces that fit into device memory,
// each of which is announced, so that the next one is fetched while one runs. What has no kernel, or does not fit, is
// computed on the host and copied.
//
// Called with evaluation_mutex() held, as the other passes. The result is there for whoever uses the stream of its GPU
// next; nobody has waited for it.
#pragma once

#include "array/pass/pass.h"

namespace ebb::array {

// Whether the target lies on a GPU, where write_on_device() puts values and no other pass may.
inline bool is_on_device(const Target& target) { return target.storage->device != nullptr; }
// `root` is an elementwise expression that broadcasts to the target, or is a lazy reduction to its shape.
void write_on_device(const NodePtr& root, const Target& target);
std::uint64_t cuda_passes_run();

}  // namespace ebb::array
