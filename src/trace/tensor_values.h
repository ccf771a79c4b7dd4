// Tensor values: what PyTorch's profilers write for the arguments and results of an operator, as TensorRefs. A tensor
// is a list [tensor, storage, offset, elements, bytes per element, "device"], a list of tensors a list of those; all
// other values are of no interest here.
//
// PyTorch writes them as JSON, Chakra as the same printed by Python, in a string. Pure functions, any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "trace/import_graph.h"

namespace ebb {

// By argument. `shapes` and `strides` may be null or of another form; then a tensor counts as contiguous. Throws
// Error(kInvalid), without a file name, if a tensor is larger than a trace can hold.
std::vector<std::vector<TensorRef>> tensor_values(const nlohmann::json& values, const nlohmann::json& shapes,
                                                  const nlohmann::json& strides);

// Reads what Python's repr() prints for lists, tuples, strings, numbers, None, True, False, nan and inf. `discarded`
// (nlohmann's) if the text is nothing of the kind or is nested too deeply.
nlohmann::json parse_python(std::string_view text);

}  // namespace ebb
