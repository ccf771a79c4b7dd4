// What the public functions share: arrays and the nodes behind them, and operands where a function can work on them.
// What has no kernel for a GPU works on the host: operands are copied there, and the result to where new arrays lie.
//
// Any thread, without evaluation_mutex().
#pragma once

#include <tuple>

#include "array/device/placement.h"
#include "array/evaluate/build.h"
#include "array/evaluate/evaluate.h"
#include "ebb/array.h"

namespace ebb::array {

inline Array wrap(NodePtr node) { return Array(std::move(node)); }
inline const Node& ready_node(const Array& array) { return *array.evaluate().node(); }
// `value`, evaluated, to be written to `target`: in memory of its own, after what lazily reads the old values. Throws
// for what cannot be written to.
Array source_for(const char* who, const Array& target, const Array& value);

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
