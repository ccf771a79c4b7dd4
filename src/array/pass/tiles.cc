// The inner loops around the kernels.
#include "array/pass/tiles.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>

namespace ebb::array {
namespace {

struct Free {
  void operator()(std::byte* memory) const { std::free(memory); }
};

// Calls part(element offset, position in the range, count, stride) for each run along the last dimension.
template <typename Part>
void walk(const Space& space, const Layout& layout, std::int64_t start, std::size_t n, const Part& part) {
  const int rank = static_cast<int>(space.sizes.size());
  const int last = rank - 1;
  std::int64_t index[kRankMax];
  std::int64_t rest = start, offset = 0;
  for (int d = last; d >= 0; --d) {
    index[d] = rest % space.sizes[d];
    rest /= space.sizes[d];
    offset += index[d] * layout.strides[d];
  }
  for (std::size_t position = 0; position < n;) {
    const auto run = std::min(n - position, static_cast<std::size_t>(space.sizes[last] - index[last]));
    part(offset, position, run, static_cast<std::ptrdiff_t>(layout.strides[last]));
    position += run;
    if (position == n) return;
    offset -= index[last] * layout.strides[last];
    index[last] = 0;
    for (int d = last - 1; d >= 0; --d) {
      offset += layout.strides[d];
      if (++index[d] < space.sizes[d]) break;
      offset -= space.sizes[d] * layout.strides[d];
      index[d] = 0;
    }
  }
}

}  // namespace

std::byte* thread_scratch(std::size_t bytes) {
  thread_local std::unique_ptr<std::byte, Free> memory;
  thread_local std::size_t capacity = 0;
  if (bytes > capacity) {
    const std::size_t size = (bytes + 4095) / 4096 * 4096;
    auto* const grown = static_cast<std::byte*>(std::aligned_alloc(64, size));
    if (grown == nullptr) throw std::bad_alloc();
    std::fill_n(grown, size, std::byte{0});  // kernels read the padding of a tile
    memory.reset(grown);
    capacity = size;
  }
  return memory.get();
}

Space make_space(const Dims& sizes, std::vector<Dims> strides) {
  Space space;
  std::vector<Dims> merged(strides.size());
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    space.count *= sizes[d];
    if (sizes[d] == 1) continue;
    bool joins = !space.sizes.empty();
    for (std::size_t k = 0; joins && k < strides.size(); ++k) joins = merged[k].back() == strides[k][d] * sizes[d];
    if (joins) {
      space.sizes.back() *= sizes[d];
    } else {
      space.sizes.push_back(sizes[d]);
    }
    for (std::size_t k = 0; k < strides.size(); ++k) {
      if (joins) {
        merged[k].back() = strides[k][d];
      } else {
        merged[k].push_back(strides[k][d]);
      }
    }
  }
  if (space.sizes.empty()) {
    space.sizes.push_back(1);
    for (Dims& one : merged) one.push_back(0);
  }
  const Dims contiguous = c_strides(space.sizes);
  for (Dims& one : merged) {
    const bool repeats = std::all_of(one.begin(), one.end(), [](std::int64_t s) { return s == 0; });
    const bool linear = one == contiguous;
    space.layouts.push_back({std::move(one), linear, repeats});
  }
  return space;
}

void load_range(LoadKernel load, const std::byte* data, std::size_t element, const Space& space, const Layout& layout,
                std::int64_t start, std::size_t n, std::byte* out, std::size_t out_element) {
  walk(space, layout, start, n, [&](std::int64_t offset, std::size_t position, std::size_t run, std::ptrdiff_t stride) {
    load(data + offset * static_cast<std::int64_t>(element), stride, out + position * out_element, run);
  });
}

void store_range(StoreKernel store, const std::byte* values, std::size_t value_element, const Space& space,
                 const Layout& layout, std::int64_t start, std::size_t n, std::byte* data, std::size_t element) {
  walk(space, layout, start, n, [&](std::int64_t offset, std::size_t position, std::size_t run, std::ptrdiff_t stride) {
    store(values + position * value_element, data + offset * static_cast<std::int64_t>(element), stride, run);
  });
}

Tiles::Tiles(const Program& program, const std::vector<NodePtr>& operands, const Space& space)
    : program_(program), space_(space) {
  constexpr std::size_t kRegisterBytes = kTile * 8;
  // Not all at multiples of 4 KiB, where they would meet in the same lines of the cache.
  constexpr std::size_t kPitch = kRegisterBytes + 128;
  const std::size_t count = operands.size() + static_cast<std::size_t>(program.registers);
  std::byte* const registers = thread_scratch(count * kPitch);
  values_.resize(count);
  for (std::size_t v = 0; v < count; ++v) values_[v] = registers + v * kPitch;
  for (std::size_t k = 0; k < operands.size(); ++k) {
    const Node& node = *operands[k];
    const Layout& layout = space.layouts[k];
    const DType dtype = node.dtype();
    Bound bound{node.data(),
                find_load(dtype),
                size_of(dtype),
                size_of(compute_of(dtype)),
                layout.linear && is_natural(dtype) && dtype != DType::kBool,
                layout.repeats,
                registers + k * kPitch};
    if (layout.repeats) bound.load(bound.data, 0, bound.reg, kTile);
    operands_.push_back(bound);
  }
  for (const Chain& chain : program.chains) bind_chain(chain);
}

void Tiles::bind_chain(const Chain& chain) {
  const auto memory_of = [&](std::uint16_t value) {
    return value < operands_.size() && operands_[value].filled ? Memory::kRepeated : Memory::kElements;
  };
  BoundChain bound{memory_of(chain.ops.front().value), {}, {}, {}};
  for (const ChainOp& op : chain.ops) {
    const Memory memory = op.kind == StepKind::kStore ? Memory::kElements : memory_of(op.value);
    bound.steps.push_back(find_step(op.kind, op.op, chain.type, memory));
  }
  bound.store = find_step(StepKind::kStore, Op::kCast, chain.type, Memory::kElements);
  bound.stream = find_step(StepKind::kStore, Op::kCast, chain.type, Memory::kStreamed);
  chains_.push_back(std::move(bound));
}

// `direct`, if not null: where the last store goes.
void Tiles::run_chain_of(const Instruction& instruction, void* direct, bool stream, std::size_t n) {
  const Chain& chain = program_.chains[instruction.chain];
  BoundChain& bound = chains_[instruction.chain];
  for (std::size_t i = 0; i + 1 < bound.steps.size(); ++i) bound.steps[i].data = values_[chain.ops[i].value];
  ChainStep& last = bound.steps[bound.steps.size() - 2];
  last.run = stream ? bound.stream.run : bound.store.run;
  if (direct != nullptr) last.data = direct;
  run_chain(chain.type, bound.first, bound.steps.data(), n);
}

const void* Tiles::fetch(std::size_t operand, std::int64_t start, std::size_t n) {
  const Bound& bound = operands_[operand];
  const Layout& layout = space_.layouts[operand];
  const std::byte* const here = bound.data + start * static_cast<std::int64_t>(bound.stored_bytes);
  if (bound.in_place && n % kPad == 0) return here;
  if (layout.linear) {
    bound.load(here, 1, bound.reg, n);
  } else {
    load_range(bound.load, bound.data, bound.stored_bytes, space_, layout, start, n, bound.reg, bound.value_bytes);
  }
  return bound.reg;
}

const void* Tiles::run(std::int64_t start, std::size_t n, void* direct, bool stream) {
  const std::size_t operands = operands_.size();
  for (std::size_t k = 0; k < operands; ++k) {
    if (!operands_[k].filled) values_[k] = fetch(k, start, n);
  }
  const std::size_t whole = padded(n);
  const std::size_t count = program_.instructions.size();
  for (std::size_t i = 0; i < count; ++i) {
    const Instruction& step = program_.instructions[i];
    void* const to = i + 1 == count && whole == n ? direct : nullptr;
    if (step.kernel == nullptr) {
      run_chain_of(step, to, to != nullptr && stream, whole);
      if (to != nullptr) return to;
    } else {
      const bool is_direct = to != nullptr && !stream;
      void* const out = is_direct ? to : const_cast<void*>(values_[step.out]);
      step.kernel(values_[step.a], values_[step.b], values_[step.c], out, whole);
      if (is_direct) return to;
    }
  }
  return values_[program_.result];
}

}  // namespace ebb::array
