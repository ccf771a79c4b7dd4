// Placement: arrays between host memory and a GPU. What has no kernel works on the host: operands are copied there, and
// the result to where new arrays lie.
//
// Any thread. A copy keeps shape, strides and gaps.
#pragma once

#include <memory>
#include <tuple>

#include "array/node.h"
#include "array/pass/program.h"

namespace ebb::array {

// A ready node in the memory of a GPU, or of the host (null): itself if it lies there, or is a number.
NodePtr moved(const NodePtr& node, const std::shared_ptr<CudaStream>& device);
Combined on_host(Combined combined);
// Bytes to the begin of memory that nobody else uses yet.
void write_bytes(const Storage& storage, const void* data, std::size_t bytes);

// Evaluated, on the host.
inline Array to_host(const Array& a) { return wrap(moved(a.evaluate().node(), nullptr)); }
// Evaluated, where new arrays lie.
inline Array to_place(const Array& a) { return wrap(moved(a.evaluate().node(), current_device())); }

// body(operands…) with all on the host, and what it gives where new arrays lie.
template <typename Body, typename... Operands>
Array run_on_host(const Body& body, const Operands&... operands) {
  if (current_device() == nullptr && !(operands.node()->is_on_device() || ...)) return body(operands...);
  const std::tuple here(to_host(operands)...);
  Array result;
  {
    const OnHost scope;
    result = std::apply(body, here).evaluate();
  }
  return to_place(result);
}

}  // namespace ebb::array
