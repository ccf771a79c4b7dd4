// What operators say of memory: the tensors among their arguments, and the bytes that each has in managed memory.
// Stateless but for what is known of operators by name; any thread.
#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>
#include <c10/util/ArrayRef.h>
#include <c10/util/FunctionRef.h>
#include <c10/util/SmallVector.h>

#include "ebb/runtime.h"

namespace ebb::torch_adapter {

// Enough for most operators without allocating; lists of tensors (foreach, fused, cat) spill to the heap.
using Accesses = c10::SmallVector<Access, 16>;

// Adds the bytes of a plain tensor on devices of this type, from its first element to its last, if they are managed.
void add_tensor(const Runtime& runtime, c10::DeviceType type, const at::Tensor& tensor, std::uint32_t group,
                bool written, Accesses& accesses);

using Arguments = c10::ArrayRef<const c10::IValue>;

// Calls `each` for every tensor among the arguments, with its place in its list and which argument it is.
using EachTensor = c10::function_ref<void(const at::Tensor& tensor, std::uint32_t group, std::size_t argument)>;
void for_each_tensor(Arguments arguments, EachTensor each);

// Which arguments of an operator its schema says are written (a bit each of the first 63): for recordings, and for
// plans that write out what is not going to change. Asked once for each operator, because a schema is slow to come by.
std::uint64_t written_arguments(Runtime& runtime, const at::RecordFunction& function, std::uint64_t op);
inline bool is_written(std::uint64_t written, std::size_t argument) {
  return argument < 63 && ((written >> argument) & 1) != 0;
}

// False of operators that look at no content: views, what only takes the shape of its argument, and what is made of
// others, which are announced themselves where they copy. To announce them would fetch what nobody reads.
bool looks_at_content(std::uint64_t op);

}  // namespace ebb::torch_adapter
