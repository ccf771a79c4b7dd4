// See cuda_pass.h.
#include "array/cuda/cuda_pass.h"

#include <algorithm>
#include <atomic>

#include "array/cuda/placement.h"
#include "array/pass/evaluate.h"
#include "array/pass/expression.h"
#include "array/source/source.h"

namespace ebb::array {
namespace {

using Reads = KernelSource::Reads;

constexpr std::uint32_t kThreads = 256;  // of a block
constexpr std::int64_t kPieceMin = 256;  // elements; one launch of fewer is as long as its start
// What a kernel may have for parameters on every GPU (CUDA C++ Programming Guide, function parameters).
constexpr std::size_t kParameterBytesMax = 4096;

std::atomic<std::uint64_t> passes{0};

struct Range {
  std::int64_t low, high;  // offsets, both included
};

// Where the elements with numbers [first, first + n) of the space lie in memory: no wider than the dimensions inside
// the first one in which first and last differ.
Range range_of(const Space& space, const Layout& layout, std::int64_t first, std::int64_t n) {
  Range range{0, 0};
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

class CudaPass {
 public:
  CudaPass(CudaStream& stream, KernelSource source, const Target& target)
      : stream_(stream), source_(std::move(source)), target_(target) {
    for (NodePtr& operand : source_.operands) operand = moved(operand, target.storage->device);
  }

  // False: something that a few elements need does not fit into device memory together.
  bool cut() {
    const std::size_t arguments = (source_.layout.size() + source_.reads.size() + 2) * sizeof(std::int64_t);
    if (arguments > kParameterBytesMax) return false;
    std::int64_t n = count();
    for (std::int64_t first = 0; first < count(); first += pieces_.back()) {
      n = std::min(n, count() - first);
      while (n > kPieceMin && !stream_.fits(accesses_of(first, n), 2)) n = (n + 1) / 2;
      if (!stream_.fits(accesses_of(first, n), 1)) return false;
      pieces_.push_back(n);
    }
    return true;
  }

  void run() {
    const auto kernel = stream_.compile(source_.text, "ebb_pass");
    std::int64_t first = 0;
    for (const std::int64_t n : pieces_) {
      std::vector<const void*> pointers;
      for (std::size_t k = 0; k < source_.reads.size(); ++k) pointers.push_back(pointer_to(k, first));
      std::vector<const void*> parameters{&first, &n, source_.layout.data(), &pointers.back()};
      for (std::size_t k = 0; k < source_.operands.size(); ++k) {
        parameters.push_back(source_.reads[k] == Reads::kByValue ? pointers[k] : &pointers[k]);
      }
      const auto blocks = static_cast<std::uint32_t>((n + kThreads - 1) / kThreads);
      stream_.launch(*kernel, {blocks, kThreads}, parameters, accesses_of(first, n));
      first += n;
    }
  }

 private:
  std::int64_t count() const { return target_.shape->count; }
  bool is_result(std::size_t k) const { return k == source_.operands.size(); }
  const ShapeInfo& shape_of(std::size_t k) const { return is_result(k) ? *target_.shape : *source_.operands[k]->shape; }
  const std::byte* data_of(std::size_t k) const { return is_result(k) ? target_.data : source_.operands[k]->data(); }

  const void* pointer_to(std::size_t k, std::int64_t first) const {
    const ShapeInfo& shape = shape_of(k);
    const std::int64_t skipped = source_.reads[k] == Reads::kInOrder ? first : shape.lowest;
    return data_of(k) + skipped * static_cast<std::int64_t>(size_of(shape.dtype));
  }

  std::vector<Access> accesses_of(std::int64_t first, std::int64_t n) const {
    std::vector<Access> accesses;
    for (std::size_t k = 0; k < source_.reads.size(); ++k) {
      if (source_.reads[k] == Reads::kByValue) continue;
      const auto element = static_cast<std::int64_t>(size_of(shape_of(k).dtype));
      const Range range = range_of(source_.space, source_.space.layouts[k], first, n);
      const Storage* const storage = is_result(k) ? target_.storage : source_.operands[k]->storage.get();
      const bool in_order = source_.reads[k] == Reads::kInOrder;
      accesses.push_back({data_of(k) + range.low * element,
                          static_cast<std::size_t>((range.high - range.low + 1) * element), storage->data, 0,
                          is_result(k), is_result(k) && in_order});
    }
    return accesses;
  }

  CudaStream& stream_;
  KernelSource source_;
  const Target& target_;
  std::vector<std::int64_t> pieces_;  // elements of each launch
};

bool run_there(const NodePtr& root, const Target& target) {
  if (root->kind == Kind::kReduce && !root->is_leaf()) return false;
  CudaStream& stream = *target.storage->device;
  const Expression expression(root);
  try {
    CudaPass pass(stream, generate(root, target.shape, Dialect::kCuda), target);
    if (!pass.cut()) return false;
    pass.run();
  } catch (const Error& error) {
    if (error.status() == Status::kNoMemory) return false;  // beside what other threads have there
    throw;
  }
  count_pass(static_cast<std::uint32_t>(expression.operators.size()));
  passes.fetch_add(1, std::memory_order_relaxed);
  return true;
}

// The host computes it in memory of its own, with the gaps of the target, which keep what is in them.
void run_here(const NodePtr& root, const Target& target) {
  const ShapeInfo& shape = *target.shape;
  const auto element = static_cast<std::int64_t>(size_of(shape.dtype));
  const auto bytes = static_cast<std::size_t>((shape.highest - shape.lowest + 1) * element);
  const StoragePtr memory = allocate_storage(bytes, nullptr);
  const std::span<std::byte> here(static_cast<std::byte*>(memory->data), bytes);
  std::byte* const there = target.data + shape.lowest * element;
  CudaStream& stream = *target.storage->device;
  if (!shape.contiguous) stream.copy_out(here, there);
  const Target copy{here.data() - shape.lowest * element, target.shape, memory.get()};
  Combined combined = on_host(combine(root->is_leaf() ? root : elementwise_part(root)));
  if (root->kind == Kind::kReduce && !root->is_leaf()) {
    const Dims& sizes = root->inputs.front()->shape->sizes;
    run(make_reduce_pass(root->reduce, std::move(combined), sizes, root->dims, copy));
  } else {
    run(make_elementwise_pass(std::move(combined), copy));
  }
  stream.copy_in(there, here);
}

}  // namespace

void write_on_device(const NodePtr& root, const Target& target) {
  if (target.shape->count > 0 && !run_there(root, target)) run_here(root, target);
}

std::uint64_t cuda_passes_run() { return passes.load(std::memory_order_relaxed); }

}  // namespace ebb::array
