// TraceBuilder: small traces for tests, by hand or at random.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/rng.h"
#include "plan/test/trace_lines.h"

namespace ebb {

class TraceBuilder {
 public:
  std::uint32_t tensor(std::uint64_t bytes, bool persistent) { return add_tensor(trace_, bytes, persistent); }
  // A further piece of the tensor before it.
  std::uint32_t piece(std::uint64_t bytes) {
    const std::uint32_t index = tensor(bytes, trace_.tensors.back().persistent);
    trace_.tensors.back().continues = true;
    return index;
  }
  void launch(std::uint64_t ns, const Indices& reads, const Indices& writes) {
    add_launch(trace_, ns, reads, writes);
    const auto op = static_cast<std::uint32_t>(trace_.ops.size());
    trace_.launches.back().op = op;
    trace_.ops.push_back("op" + std::to_string(op));
  }
  Trace take() {
    EBB_CHECK(check(trace_).empty());
    return trace_;
  }

  // A network of `layers`: forward makes an activation a layer, backward uses them in reverse and updates the weights.
  static Trace network(std::uint64_t seed, std::uint32_t layers, std::uint64_t bytes_max, std::uint64_t ns_max) {
    Rng rng(seed);
    TraceBuilder builder;
    std::vector<std::uint32_t> weights, activations;
    for (std::uint32_t i = 0; i < layers; ++i) weights.push_back(builder.tensor(rng.between(1, bytes_max), true));
    std::uint32_t flow = builder.tensor(rng.between(1, bytes_max), false);
    activations.push_back(flow);
    builder.launch(rng.between(1, ns_max), {}, {flow});
    for (std::uint32_t i = 0; i < layers; ++i) {
      const std::uint32_t made = builder.tensor(rng.between(1, bytes_max), false);
      const std::uint32_t workspace = builder.tensor(rng.between(1, bytes_max), false);
      builder.launch(rng.between(1, ns_max), {flow, weights[i]}, {made, workspace});
      // Some skip a layer.
      flow = rng.chance(1, 8) ? flow : made;
      activations.push_back(made);
    }
    for (std::uint32_t i = layers; i-- > 0;) {
      const std::uint32_t gradient = builder.tensor(rng.between(1, bytes_max), false);
      builder.launch(rng.between(1, ns_max), {flow, activations[i], weights[i]}, {gradient});
      builder.launch(rng.between(1, ns_max), {gradient, weights[i]}, {weights[i]});
      flow = gradient;
    }
    return builder.take();
  }

 private:
  Trace trace_;
};

}  // namespace ebb
