// See rows.h.
#include "bindings/torch/rows.h"

#include <ATen/SparseTensorImpl.h>
#include <ATen/core/List.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

namespace ebb::torch_adapter {
namespace {

// Which argument of an operator is the table, and which the numbers of its rows.
enum class Lookup : std::uint8_t {
  kNone,
  kEmbedding,    // (table, numbers, …)
  kIndexSelect,  // (table, dimension, numbers, …)
  kIndex,        // (table, [numbers], …), which may count from the end
  kSparse,       // (table, sparse tensor, …): the rows that it has
  kGrouped,      // (rows, tables, ends of groups, …)
};

Lookup find_lookup(std::uint64_t op) {
  static const std::array<std::pair<std::uint64_t, Lookup>, 13> known{{
      {op_of("aten::embedding"), Lookup::kEmbedding},
      {op_of("aten::embedding_bag"), Lookup::kEmbedding},
      {op_of("aten::_embedding_bag"), Lookup::kEmbedding},
      {op_of("aten::_embedding_bag_forward_only"), Lookup::kEmbedding},
      {op_of("aten::index_select"), Lookup::kIndexSelect},
      {op_of("aten::index_add_"), Lookup::kIndexSelect},
      {op_of("aten::index_copy_"), Lookup::kIndexSelect},
      {op_of("aten::index"), Lookup::kIndex},
      {op_of("aten::index_put_"), Lookup::kIndex},
      {op_of("aten::_index_put_impl_"), Lookup::kIndex},
      {op_of("aten::add_"), Lookup::kSparse},
      {op_of("aten::sparse_mask"), Lookup::kSparse},
      {op_of("aten::_grouped_mm"), Lookup::kGrouped},
  }};
  const auto found = std::find_if(known.begin(), known.end(), [&](const auto& each) { return each.first == op; });
  return found == known.end() ? Lookup::kNone : found->second;
}

constexpr std::int64_t kRowsMax = std::int64_t{1} << 20;  // of a lookup: what reading more numbers takes is noticed
constexpr std::int64_t kGroupsMax = 1024;                 // of a product, most of them empty
constexpr std::size_t kGroupCost = std::size_t{4} << 20;  // a small one is fetched in the time of so much in turn

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
};

// The blocks of a table in which rows are used.
class UsedBlocks {
 public:
  UsedBlocks(const Table& table, std::size_t block_bytes)
      : table_(table),
        block_bytes_(block_bytes),
        begin_(reinterpret_cast<std::uintptr_t>(table.first)),
        end_(begin_ + static_cast<std::size_t>(table.rows - 1) * table.apart + table.row_bytes),
        first_(begin_ / block_bytes),
        used_((end_ - 1) / block_bytes - first_ + 1, false) {}

  void add(std::int64_t row) {
    const std::uintptr_t begin = begin_ + static_cast<std::size_t>(row) * table_.apart;
    for (std::size_t i = begin / block_bytes_; i <= (begin + table_.row_bytes - 1) / block_bytes_; ++i) {
      used_[i - first_] = true;
    }
  }
  // Whether so many rows, wherever they are, leave a quarter of the blocks unused: an expectation, so that a program
  // that uses as many each time is told of alike each time.
  bool are_few(std::int64_t rows) const { return static_cast<std::size_t>(rows) * 8 <= used_.size() * 11; }
  void add_to(Accesses& accesses, bool written) const {
    for (std::size_t i = 0; i < used_.size(); ++i) {
      if (!used_[i]) continue;
      const std::size_t begin = std::max((first_ + i) * block_bytes_, begin_);
      while (i + 1 < used_.size() && used_[i + 1]) ++i;
      const std::size_t end = std::min((first_ + i + 1) * block_bytes_, end_);
      accesses.push_back({reinterpret_cast<const void*>(begin), end - begin});
      accesses.back().written = written;
    }
  }

 private:
  const Table& table_;
  std::size_t block_bytes_;
  std::uintptr_t begin_, end_;
  std::size_t first_;
  std::vector<bool> used_;
};

// What an integer tensor holds.
struct Numbers {
  const void* data = nullptr;
  std::int64_t count = 0;
  bool wide = false;

  explicit Numbers(const at::Tensor& tensor) {
    const void* const found = data_of(tensor);
    if (found == nullptr || !tensor.is_contiguous()) return;
    wide = tensor.scalar_type() == c10::kLong;
    if (!wide && tensor.scalar_type() != c10::kInt) return;
    data = found;
    count = tensor.numel();
  }
  std::int64_t operator[](std::int64_t i) const {
    return wide ? static_cast<const std::int64_t*>(data)[i] : static_cast<const std::int32_t*>(data)[i];
  }
};

void add_others(const Runtime& runtime, Arguments arguments, std::size_t table, std::uint64_t written,
                Accesses& accesses) {
  for_each_tensor(arguments, [&](const at::Tensor& tensor, std::uint32_t group, std::size_t argument) {
    if (argument == table) return;
    add_tensor(runtime, c10::DeviceType::CPU, tensor, group, is_written(written, argument), accesses);
  });
}

// The rows that are named one by one. What is no row of the table is the operator's to complain of.
bool add_lookup(const Runtime& runtime, Arguments arguments, const Numbers& numbers, bool from_the_end,
                std::uint64_t written, Accesses& accesses) {
  const Table table(runtime, arguments[0].toTensor());
  if (table.first == nullptr || numbers.count < 1 || numbers.count > kRowsMax) return false;
  UsedBlocks used(table, runtime.block_bytes());
  if (!used.are_few(numbers.count)) return false;
  for (std::int64_t i = 0; i < numbers.count; ++i) {
    const std::int64_t row = numbers[i] < 0 && from_the_end ? numbers[i] + table.rows : numbers[i];
    if (row >= 0 && row < table.rows) used.add(row);
  }
  used.add_to(accesses, is_written(written, 0));
  add_others(runtime, arguments, 0, written, accesses);
  return true;
}

// Rows of a matrix are multiplied with one matrix of the table for each group of them; each group's end is given.
bool add_groups(const Runtime& runtime, Arguments arguments, Accesses& accesses) {
  if (arguments.size() < 3 || !arguments[2].isTensor() || !arguments[1].isTensor() ||
      arguments[1].toTensor().dim() != 3)
    return false;
  const Table table(runtime, arguments[1].toTensor());
  const Numbers ends(arguments[2].toTensor());
  if (table.first == nullptr || ends.count != table.rows || ends.count > kGroupsMax) return false;
  UsedBlocks used(table, runtime.block_bytes());
  std::size_t count = 0;
  for (std::int64_t i = 0; i < ends.count; ++i) {
    if (ends[i] == (i > 0 ? ends[i - 1] : 0)) continue;
    used.add(i);
    ++count;
  }
  if (count * std::max(kGroupCost, table.row_bytes) > static_cast<std::size_t>(table.rows) * table.row_bytes)
    return false;
  add_others(runtime, arguments, 1, 0, accesses);
  used.add_to(accesses, false);
  return true;
}

// The numbers of the rows that a sparse tensor has; none if it is of another kind.
Numbers rows_of(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.layout() != c10::kSparse || !tensor.device().is_cpu() || tensor.sparse_dim() != 1) {
    return Numbers(at::Tensor());
  }
  return Numbers(static_cast<const at::SparseTensorImpl*>(tensor.unsafeGetTensorImpl())->indices());
}

}  // namespace

bool add_rows(const Runtime& runtime, std::uint64_t op, Arguments arguments, std::uint64_t written,
              Accesses& accesses) {
  const Lookup lookup = find_lookup(op);
  if (lookup == Lookup::kNone || arguments.size() < 2 || !arguments[0].isTensor()) return false;
  if (lookup == Lookup::kGrouped) return add_groups(runtime, arguments, accesses);
  if (lookup == Lookup::kSparse) {
    if (!arguments[1].isTensor()) return false;
    return add_lookup(runtime, arguments, rows_of(arguments[1].toTensor()), false, written, accesses);
  }
  if (lookup == Lookup::kIndex) {
    if (!arguments[1].isList() || arguments[1].toListRef().size() != 1) return false;
    const c10::IValue& numbers = arguments[1].toListRef()[0];
    return numbers.isTensor() && add_lookup(runtime, arguments, Numbers(numbers.toTensor()), true, written, accesses);
  }
  const std::size_t which = lookup == Lookup::kEmbedding ? 1 : 2;
  if (arguments.size() <= which || !arguments[which].isTensor()) return false;
  if (lookup == Lookup::kIndexSelect && (!arguments[1].isInt() || arguments[1].toInt() != 0)) return false;
  return add_lookup(runtime, arguments, Numbers(arguments[which].toTensor()), false, written, accesses);
}

}  // namespace ebb::torch_adapter
