// See cuda_pass.h.
#include "array/device/cuda_pass.h"

#include <algorithm>
#include <atomic>

#include "array/device/cuda_launch.h"
#include "array/device/cuda_reduce.h"
#include "array/device/placement.h"
#include "array/graph/expression.h"

namespace ebb::array {
namespace {

using Reads = KernelSource::Reads;

std::atomic<std::uint64_t> cuda_passes{0};

class CudaPass {
 public:
  CudaPass(CudaStream& stream, KernelSource source, const Target& target)
      : stream_(stream), source_(std::move(source)), target_(target) {
    for (NodePtr& operand : source_.operands) operand = moved(operand, target.storage->device);
  }

  // False: something that a few elements need does not fit into device memory together.
  bool cut() {
    if (parameter_bytes(source_) > kParameterBytesMax) return false;
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
      const std::vector<const void*> pointers = pointers_of(source_, first);
      const std::byte* const out = target_.data + out_skipped(first) * element();
      std::vector<const void*> parameters{&first, &n, source_.layout.data(), &out};
      for (std::size_t k = 0; k < pointers.size(); ++k) {
        parameters.push_back(source_.reads[k] == Reads::kByValue ? pointers[k] : &pointers[k]);
      }
      stream_.launch(*kernel, grid_of(n), parameters, accesses_of(first, n));
      first += n;
    }
  }

 private:
  std::int64_t count() const { return target_.shape->count; }
  std::int64_t element() const { return static_cast<std::int64_t>(size_of(target_.shape->dtype)); }
  bool is_in_order() const { return source_.reads.back() == Reads::kInOrder; }
  std::int64_t out_skipped(std::int64_t first) const { return is_in_order() ? first : target_.shape->lowest; }

  std::vector<Access> accesses_of(std::int64_t first, std::int64_t n) const {
    std::vector<Access> accesses;
    for (std::size_t k = 0; k < source_.operands.size(); ++k) add_access(source_, k, first, n, accesses);
    const OffsetRange range = range_of(source_.space, source_.space.layouts.back(), first, n);
    accesses.push_back({target_.data + range.low * element(),
                        static_cast<std::size_t>((range.high - range.low + 1) * element()), target_.storage->data, 0,
                        true, is_in_order()});
    return accesses;
  }

  CudaStream& stream_;
  KernelSource source_;
  const Target& target_;
  std::vector<std::int64_t> pieces_;  // elements of each launch
};

bool is_reduction(const Node& root) { return root.kind == Kind::kReduce && !root.is_leaf(); }

bool run_pass(const NodePtr& root, const Target& target) {
  CudaPass pass(*target.storage->device, generate(root, target.shape, Dialect::kCuda), target);
  if (!pass.cut()) return false;
  pass.run();
  return true;
}

bool run_there(const NodePtr& root, const Target& target) {
  const Expression expression(is_reduction(*root) ? root->inputs.front() : root);
  try {
    if (!(is_reduction(*root) ? reduce_on_device(root, target) : run_pass(root, target))) return false;
  } catch (const Error& error) {
    if (error.status() == Status::kNoMemory) return false;  // beside what other threads have there
    throw;
  }
  count_pass(static_cast<std::uint32_t>(expression.operators.size()));
  cuda_passes.fetch_add(1, std::memory_order_relaxed);
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
  if (is_reduction(*root)) {
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

std::uint64_t cuda_passes_run() { return cuda_passes.load(std::memory_order_relaxed); }

}  // namespace ebb::array
