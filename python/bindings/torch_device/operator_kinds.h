// What an operator means for memory on a device, found out once for each. Any thread.
#pragma once

#include <ATen/record_function.h>
#include <c10/core/DeviceType.h>

#include <cstdint>
#include <string>

namespace ebb::torch_adapter {

enum class OperatorKind : std::uint8_t {
  kStartsKernels,
  kMadeOfOthers,    // which are announced themselves; announced besides, it would hold what they use one by one
  kLooksAtNothing,  // views, and what only makes a tensor
  kCollective,      // its kernels run in a stream of somebody else's, until its Work is over
  kRefused,         // refusal_of() says why
};

OperatorKind kind_of(const at::RecordFunction& function, c10::DeviceType type);
std::string refusal_of(const std::string& name);

}  // namespace ebb::torch_adapter
