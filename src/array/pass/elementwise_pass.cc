// The elementwise pass, and running any pass at once.
#include <algorithm>
#include <atomic>

#include "array/pass/pass.h"

namespace ebb::array {
namespace {

// Tasks of a pass: enough of them for all threads to end together, and each long beside what it takes to begin one.
constexpr std::int64_t kTasks = 64;
constexpr std::int64_t kTaskMin = 64 * kTileElements;
constexpr std::int64_t kTaskMax = 512 * kTileElements;
// Results beyond this are written around the cache: nothing of them would still be there when they are read.
constexpr std::int64_t kStreamBytes = 8 * static_cast<std::int64_t>(kMiB);

std::atomic<std::uint64_t> g_passes{0}, g_operators{0};

struct Elementwise {
  Combined combined;
  Target target;
  Space space;
  StoreKernel store;
  std::size_t element, value_element;
  bool in_place;  // looks like a register
  bool stream;

  void run_task(std::int64_t first, std::int64_t end) const;
};

void Elementwise::run_task(std::int64_t first, std::int64_t end) const {
  Tiles tiles(*combined.program, combined.operands, space);
  const Layout& layout = space.layouts.back();
  for (std::int64_t start = first; start < end; start += kTileElements) {
    const auto n = static_cast<std::size_t>(std::min(kTileElements, end - start));
    std::byte* const here = target.data + start * static_cast<std::int64_t>(element);
    void* const direct = layout.linear && in_place ? here : nullptr;
    const void* const result = tiles.run(start, n, direct, stream);
    if (result == direct && direct != nullptr) continue;
    if (!layout.linear) {
      store_range(store, static_cast<const std::byte*>(result), value_element, space, layout, start, n, target.data,
                  element);
    } else if (stream && n == kTile && reinterpret_cast<std::uintptr_t>(result) % 64 == 0) {
      stream_out(result, here, n * element);
    } else {
      store(result, here, 1, n);
    }
  }
  if (stream) stream_fence();
}

AccessList accesses_of(const Combined& combined, const Target& target, const Space& space) {
  AccessList accesses(combined.program->identity, "array elementwise");
  for (std::size_t k = 0; k < combined.operands.size(); ++k) {
    const Node& node = *combined.operands[k];
    accesses.add(node.storage.get(), node.data(), *node.shape, space.layouts[k].linear, false);
  }
  accesses.add(target.storage, target.data, *target.shape, space.layouts.back().linear, true);
  return accesses;
}

}  // namespace

Pass make_elementwise_pass(Combined combined, Target target) {
  std::vector<Dims> strides;
  for (const NodePtr& operand : combined.operands) {
    strides.push_back(broadcast_strides(*operand->shape, target.shape->sizes));
  }
  strides.push_back(target.shape->strides);
  Space space = make_space(target.shape->sizes, std::move(strides));
  AccessList accesses = accesses_of(combined, target, space);
  const std::uint32_t count_of_operators = combined.program->operators;
  if (target.shape->count == 0) return {std::move(accesses), 0, count_of_operators, nullptr};
  const DType dtype = target.shape->dtype;
  const bool natural = is_natural(dtype), linear = space.layouts.back().linear;
  const std::int64_t bytes = target.shape->count * static_cast<std::int64_t>(size_of(dtype));
  const bool stream =
      natural && linear && bytes >= kStreamBytes && reinterpret_cast<std::uintptr_t>(target.data) % 64 == 0;
  const std::int64_t count = space.count;
  const auto pass = std::make_shared<const Elementwise>(Elementwise{std::move(combined), std::move(target),
                                                                    std::move(space), find_store(dtype), size_of(dtype),
                                                                    size_of(compute_of(dtype)), natural, stream});
  const auto run = [pass](std::int64_t first, std::int64_t end, const TaskRunner& runner) {
    const std::int64_t aim = (end - first) / kTasks / kTileElements * kTileElements;
    const std::int64_t each = std::clamp(aim, kTaskMin, kTaskMax);
    runner((end - first + each - 1) / each,
           [&](std::int64_t task) { pass->run_task(first + task * each, std::min(end, first + (task + 1) * each)); });
  };
  return {std::move(accesses), count, count_of_operators, run};
}

void run(const Pass& pass) {
  if (pass.count == 0) return;
  run_announced(pass.accesses.announced(), [&] { pass.run(0, pass.count, run_tasks); });
  count_pass(pass.operators);
}

std::uint64_t passes_run() { return g_passes.load(std::memory_order_relaxed); }
std::uint64_t operators_run() { return g_operators.load(std::memory_order_relaxed); }
void count_pass(std::uint32_t count) {
  g_passes.fetch_add(1, std::memory_order_relaxed);
  g_operators.fetch_add(count, std::memory_order_relaxed);
}

}  // namespace ebb::array
