// See cuda_launch.h.
#include "array/device/cuda_launch.h"

#include <algorithm>

namespace ebb::array {
namespace {

using Reads = KernelSource::Reads;

constexpr std::int64_t kThreads = 256;  // of a block

}  // namespace

CudaGrid grid_of(std::int64_t threads) {
  return {static_cast<std::uint32_t>((threads + kThreads - 1) / kThreads), static_cast<std::uint32_t>(kThreads)};
}

std::size_t parameter_bytes(const KernelSource& source) {
  constexpr std::size_t kOthersMax = 10;  // besides the layout and the operands
  return (source.layout.size() + source.reads.size() + kOthersMax) * sizeof(std::int64_t);
}

OffsetRange range_of(const Space& space, const Layout& layout, std::int64_t first, std::int64_t n) {
  OffsetRange range{0, 0};
  std::int64_t inside = space.count;
  bool differs = false;
  for (std::size_t d = 0; d < space.sizes.size(); ++d) {
    const std::int64_t size = space.sizes[d];
    inside /= size;
    const std::int64_t from = differs ? 0 : first / inside % size;
    const std::int64_t to = differs ? size - 1 : (first + n - 1) / inside % size;
    differs = differs || from != to;
    range.low += std::min(from * layout.strides[d], to * layout.strides[d]);
    range.high += std::max(from * layout.strides[d], to * layout.strides[d]);
  }
  return range;
}

void add_access(const KernelSource& source, std::size_t k, std::int64_t first, std::int64_t n,
                std::vector<Access>& accesses) {
  if (source.reads[k] == Reads::kByValue) return;
  const Node& node = *source.operands[k];
  const auto element = static_cast<std::int64_t>(size_of(node.dtype()));
  const OffsetRange range = range_of(source.space, source.space.layouts[k], first, n);
  accesses.push_back({node.data() + range.low * element,
                      static_cast<std::size_t>((range.high - range.low + 1) * element), node.storage->data});
}

std::vector<const void*> pointers_of(const KernelSource& source, std::int64_t first) {
  std::vector<const void*> pointers;
  for (std::size_t k = 0; k < source.operands.size(); ++k) {
    const Node& node = *source.operands[k];
    const std::int64_t skipped = source.reads[k] == Reads::kInOrder ? first : node.shape->lowest;
    pointers.push_back(node.data() + skipped * static_cast<std::int64_t>(size_of(node.dtype())));
  }
  return pointers;
}

}  // namespace ebb::array
