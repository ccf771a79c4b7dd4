// The elementwise pass, and the declaration of what passes touch.
#include <algorithm>
#include <atomic>

#include "array/pass/pass.h"

namespace ebb::array {
namespace {

constexpr std::int64_t kTaskElements = 64 * static_cast<std::int64_t>(kTile);
// Results beyond this are written around the cache: nothing of them would still be there when they are read.
constexpr std::int64_t kStreamBytes = 8 * static_cast<std::int64_t>(kMiB);
// A piece of a long pass that is declared, and hence fetched, as a whole.
constexpr std::int64_t kPieceBytes = 8 * static_cast<std::int64_t>(kMiB);

std::atomic<std::uint64_t> passes{0}, operators{0};

struct Output {
  StoreKernel store;
  std::size_t element, value_element;
  bool in_place;  // looks like a register
  bool stream;
};

void run_task(const Combined& combined, const Space& space, const Target& target, const Output& output,
              std::int64_t first, std::int64_t end) {
  Tiles tiles(*combined.program, combined.operands, space);
  const Layout& layout = space.layouts.back();
  for (std::int64_t start = first; start < end; start += kTile) {
    const auto n = static_cast<std::size_t>(std::min<std::int64_t>(kTile, end - start));
    std::byte* const here = target.data + start * static_cast<std::int64_t>(output.element);
    void* const direct = layout.linear && output.in_place ? here : nullptr;
    const void* const result = tiles.run(start, n, direct, output.stream);
    if (result == direct && direct != nullptr) continue;
    if (!layout.linear) {
      store_range(output.store, static_cast<const std::byte*>(result), output.value_element, space, layout, start, n,
                  target.data, output.element);
    } else if (output.stream && n == kTile && reinterpret_cast<std::uintptr_t>(result) % 64 == 0) {
      stream_out(result, here, n * output.element);
    } else {
      output.store(result, here, 1, n);
    }
  }
  if (output.stream) stream_fence();
}

}  // namespace

void elementwise_pass(const Combined& combined, const Target& target) {
  const Program& program = *combined.program;
  std::vector<Dims> strides;
  for (const NodePtr& operand : combined.operands) {
    strides.push_back(broadcast_strides(*operand->shape, target.shape->sizes));
  }
  strides.push_back(target.shape->strides);
  if (target.shape->count == 0) return;
  const Space space = make_space(target.shape->sizes, std::move(strides));
  AccessList accesses(program.identity, "array elementwise");
  for (std::size_t k = 0; k < combined.operands.size(); ++k) {
    const Node& node = *combined.operands[k];
    accesses.add(node.storage.get(), node.data(), *node.shape, space.layouts[k].linear, false);
  }
  const Layout& out = space.layouts.back();
  accesses.add(target.storage, target.data, *target.shape, out.linear, true);
  const DType dtype = target.shape->dtype;
  const bool natural = is_natural(dtype);
  const std::int64_t bytes = target.shape->count * static_cast<std::int64_t>(size_of(dtype));
  const Output output{
      find_store(dtype), size_of(dtype), size_of(compute_of(dtype)), natural,
      natural && out.linear && bytes >= kStreamBytes && reinterpret_cast<std::uintptr_t>(target.data) % 64 == 0};
  const std::int64_t tasks = (space.count + kTaskElements - 1) / kTaskElements;
  run_pass(accesses.finish(), tasks, [&](std::int64_t task) {
    const std::int64_t first = task * kTaskElements;
    run_task(combined, space, target, output, first, std::min(space.count, first + kTaskElements));
  });
  count_pass(program.operators);
}

AccessList::AccessList(std::uint64_t op, const char* label) {
  pass_.op = op | 1;
  pass_.label = label;
}

void AccessList::add(const Storage* storage, const std::byte* data, const ShapeInfo& shape, bool linear, bool written) {
  if (storage == nullptr || storage->runtime == nullptr || shape.count == 0) return;
  if (pass_.runtime == nullptr) pass_.runtime = storage->runtime;
  if (pass_.runtime != storage->runtime || !pass_.runtime->manages(storage->data)) return;
  const auto element = static_cast<std::int64_t>(size_of(shape.dtype));
  const std::byte* const low = data + shape.lowest * element;
  const std::int64_t bytes = (shape.highest - shape.lowest + 1) * element;
  const std::int64_t piece = linear ? kPieceBytes / 8 * element : bytes;  // as many elements of each array a piece
  std::uint32_t group = 0;
  for (std::int64_t at = 0; at < bytes; at += piece, ++group) {
    pass_.accesses.push_back(
        {low + at, static_cast<std::size_t>(std::min(piece, bytes - at)), storage->data, group, written});
  }
}

const PassAccesses& AccessList::finish() {
  std::stable_sort(pass_.accesses.begin(), pass_.accesses.end(),
                   [](const Access& a, const Access& b) { return a.group < b.group; });
  return pass_;
}

std::uint64_t passes_run() { return passes.load(std::memory_order_relaxed); }
std::uint64_t operators_run() { return operators.load(std::memory_order_relaxed); }
void count_pass(std::uint32_t count) {
  passes.fetch_add(1, std::memory_order_relaxed);
  operators.fetch_add(count, std::memory_order_relaxed);
}

}  // namespace ebb::array
