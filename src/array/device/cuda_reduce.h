// Reductions on a GPU: their elements are read there, in pieces that fit, into accumulators, of which there are few;
// these are put together, and converted, on the host.
//
// Called with evaluation_mutex() held, as the other passes. Integers, minima and maxima have the bits of the host's;
// sums and products of floats, in f64 as there, are rounded in another order.
#pragma once

#include "array/pass/pass.h"

namespace ebb::array {

// `node` is a lazy reduction, `target` on a GPU. False: what a few elements need does not fit there together.
bool reduce_on_device(const NodePtr& node, const Target& target);

}  // namespace ebb::array
