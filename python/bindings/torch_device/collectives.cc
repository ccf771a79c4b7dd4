// See collectives.h.
#include "bindings/torch_device/collectives.h"

#include <c10/util/Exception.h>

#include <torch/csrc/distributed/c10d/Work.hpp>

namespace ebb::torch_adapter {

void wait_for_collective(const std::vector<c10::IValue>& outputs) {
  for (const c10::IValue& output : outputs) {
    if (!output.isObject()) continue;
    try {
      if (const auto work = output.toCustomClass<c10d::Work>(); work.defined()) work->wait();
    } catch (const std::exception& error) {
      // Whoever waits for the Work is told the same.
      TORCH_WARN("a collective failed: ", error.what());
    }
  }
}

}  // namespace ebb::torch_adapter
