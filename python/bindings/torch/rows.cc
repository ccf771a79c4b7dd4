// See rows.h.
#include "bindings/torch/rows.h"

#include <ATen/core/List.h>

#include <algorithm>

#include "bindings/torch/operator_table.h"

namespace ebb::torch_adapter {
namespace {

const std::uint64_t kEmbedding = op_of("aten::embedding"), kIndexSelect = op_of("aten::index_select"),
                    kIndex = op_of("aten::index"), kGroupedMm = op_of("aten::_grouped_mm");
constexpr std::int64_t kRowsMax = 64;                   // of a lookup; to read more indices would be noticed
constexpr std::int64_t kGroupsMax = 1024;               // of a product, most of them empty
constexpr std::size_t kRowCost = std::size_t{4} << 20;  // a row is fetched in the time of so much of a table in turn

const void* data_of(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.layout() != c10::kStrided || !tensor.unsafeGetTensorImpl()->has_storage())
    return nullptr;
  if (!tensor.device().is_cpu() || tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides()) return nullptr;
  auto* const storage = tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  const auto* const base = static_cast<const char*>(storage->_mutable_data_ptr_no_checks().get());
  return base == nullptr ? nullptr
                         : base + static_cast<std::size_t>(tensor.storage_offset()) * tensor.dtype().itemsize();
}

// A managed tensor, by its first dimension.
struct Table {
  const char* first = nullptr;
  std::size_t apart = 0, row_bytes = 0;  // from one row to the next; of a row, from its first element to its last
  std::int64_t rows = 0;

  Table(const Runtime& runtime, const at::Tensor& tensor) {
    const auto* const data = static_cast<const char*>(data_of(tensor));
    if (data == nullptr || !runtime.manages(data) || tensor.dim() < 2 || tensor.numel() == 0) return;
    const std::size_t item = tensor.dtype().itemsize();
    std::int64_t elements = 1;
    for (std::int64_t d = 1; d < tensor.dim(); ++d) elements += (tensor.size(d) - 1) * tensor.stride(d);
    first = data;
    apart = static_cast<std::size_t>(tensor.stride(0)) * item;
    row_bytes = static_cast<std::size_t>(elements) * item;
    rows = tensor.size(0);
  }
  bool worth(std::int64_t used) const {
    const std::size_t cost = std::max(kRowCost, row_bytes);
    return static_cast<std::size_t>(used) * cost <= static_cast<std::size_t>(rows) * row_bytes;
  }
  Access row(std::int64_t i) const { return {first + static_cast<std::size_t>(i) * apart, row_bytes}; }
};

// What an integer tensor holds, if it is one that can be read without waiting.
struct Numbers {
  const void* data = nullptr;
  std::int64_t count = 0;
  bool wide = false;

  Numbers(const Runtime& runtime, const at::Tensor& tensor) {
    const void* const found = data_of(tensor);
    if (found == nullptr || runtime.manages(found) || !tensor.is_contiguous()) return;
    wide = tensor.scalar_type() == c10::kLong;
    if (!wide && tensor.scalar_type() != c10::kInt) return;
    data = found;
    count = tensor.numel();
  }
  std::int64_t operator[](std::int64_t i) const {
    return wide ? static_cast<const std::int64_t*>(data)[i] : static_cast<const std::int32_t*>(data)[i];
  }
};

// The rows that are named one by one. What is no row of the table is the operator's to complain of.
bool add_lookup(const Runtime& runtime, const at::Tensor& tensor, const at::Tensor& indices, bool from_the_end,
                Accesses& accesses) {
  const Table table(runtime, tensor);
  const Numbers numbers(runtime, indices);
  if (table.first == nullptr || numbers.count < 1 || numbers.count > kRowsMax || !table.worth(numbers.count))
    return false;
  for (std::int64_t i = 0; i < numbers.count; ++i) {
    const std::int64_t row = numbers[i] < 0 && from_the_end ? numbers[i] + table.rows : numbers[i];
    if (row >= 0 && row < table.rows) accesses.push_back(table.row(row));
  }
  return true;
}

// Rows of a matrix are multiplied with one matrix of the table for each group of them; each group's end is given.
bool add_groups(const Runtime& runtime, Arguments arguments, Accesses& accesses) {
  if (arguments.size() < 3 || !arguments[2].isTensor() || arguments[1].toTensor().dim() != 3) return false;
  const Table table(runtime, arguments[1].toTensor());
  const Numbers ends(runtime, arguments[2].toTensor());
  if (table.first == nullptr || ends.count != table.rows || ends.count > kGroupsMax) return false;
  std::int64_t used = 0;
  for (std::int64_t i = 0; i < ends.count; ++i) used += ends[i] != (i > 0 ? ends[i - 1] : 0) ? 1 : 0;
  if (!table.worth(used)) return false;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (i == 1 || !arguments[i].isTensor()) continue;
    add_tensor(runtime, c10::DeviceType::CPU, arguments[i].toTensor(), 0, false, accesses);
  }
  for (std::int64_t i = 0; i < ends.count; ++i) {
    if (ends[i] != (i > 0 ? ends[i - 1] : 0)) accesses.push_back(table.row(i));
  }
  return true;
}

}  // namespace

bool add_rows(const Runtime& runtime, std::uint64_t op, Arguments arguments, Accesses& accesses) {
  if (op != kEmbedding && op != kIndexSelect && op != kIndex && op != kGroupedMm) return false;
  if (arguments.size() < 2 || !arguments[0].isTensor()) return false;
  const at::Tensor& first = arguments[0].toTensor();
  if (op == kGroupedMm) return arguments[1].isTensor() && add_groups(runtime, arguments, accesses);
  if (op == kIndex) {
    if (!arguments[1].isList() || arguments[1].toListRef().size() != 1) return false;
    const c10::IValue& indices = arguments[1].toListRef()[0];
    return indices.isTensor() && add_lookup(runtime, first, indices.toTensor(), true, accesses);
  }
  const std::size_t which = op == kEmbedding ? 1 : 2;
  if (arguments.size() <= which || !arguments[which].isTensor()) return false;
  if (op == kIndexSelect && (!arguments[1].isInt() || arguments[1].toInt() != 0)) return false;
  return add_lookup(runtime, first, arguments[which].toTensor(), false, accesses);
}

}  // namespace ebb::torch_adapter
