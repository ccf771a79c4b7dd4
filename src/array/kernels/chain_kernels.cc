// The steps of chains, for each instruction set.
// clang-format off: the order matters to Highway
#include "array/kernels/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "array/kernels/chain_kernels.cc"
#include <hwy/foreach_target.h>  // includes this file once per instruction set
// clang-format on

#include <hwy/cache_control.h>
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <atomic>
#include <cmath>
#include <limits>

#include "array/kernels/chain.h"

HWY_BEFORE_NAMESPACE();
namespace ebb::array {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

#include "array/kernels/functions.inc"

constexpr std::size_t kWidth = 8;  // vectors: as many as calls pass in registers

// Bytes from what is read to what is asked for: about as long as memory takes. Nothing is asked of an address that is
// not there, so it may be beyond the end. Prefetchers of processors lose track of several arrays that are read by
// turns.
constexpr std::size_t kAhead = 4096;

template <typename T>
using D = hn::ScalableTag<T>;
template <typename T>
using V = hn::Vec<D<T>>;
template <typename T>
using Run = void (*)(const ChainStep*, std::size_t, V<T>, V<T>, V<T>, V<T>, V<T>, V<T>, V<T>, V<T>);

template <typename T>
Run<T> run_of(const ChainStep* step) {
  return reinterpret_cast<Run<T>>(step->run);
}

// What a step reads, and the k-th of its vectors at element i.
template <typename T>
const T* data_of(const ChainStep* step) {
  return static_cast<const T*>(step->data);
}
template <typename T, Memory kMemory>
V<T> load(const T* from, std::size_t i, std::size_t k) {
  const D<T> d;
  if constexpr (kMemory == Memory::kRepeated) return hn::Set(d, *from);
  const V<T> v = hn::LoadU(d, from + i + k * hn::Lanes(d));
  hwy::Prefetch(from + i + k * hn::Lanes(d) + kAhead / sizeof(T));
  // Compilers turn the order of loads round, and prefetchers do not follow blocks that are read backwards.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  return v;
}

template <typename T, bool kStreamed>
void put(V<T> v, const ChainStep* step, std::size_t i, std::size_t k) {
  const D<T> d;
  T* const to = static_cast<T*>(const_cast<void*>(step->data)) + i + k * hn::Lanes(d);
  if constexpr (kStreamed) {
    hn::Stream(v, d, to);
  } else {
    hn::StoreU(v, d, to);
  }
}

template <typename T, Memory kMemory>
HWY_INLINE void load_and_go(const ChainStep* s, std::size_t i) {
  const T* const from = data_of<T>(s);
  const V<T> v0 = load<T, kMemory>(from, i, 0);
  const V<T> v1 = load<T, kMemory>(from, i, 1);
  const V<T> v2 = load<T, kMemory>(from, i, 2);
  const V<T> v3 = load<T, kMemory>(from, i, 3);
  const V<T> v4 = load<T, kMemory>(from, i, 4);
  const V<T> v5 = load<T, kMemory>(from, i, 5);
  const V<T> v6 = load<T, kMemory>(from, i, 6);
  const V<T> v7 = load<T, kMemory>(from, i, 7);
  run_of<T>(s + 1)(s + 1, i, v0, v1, v2, v3, v4, v5, v6, v7);
}

template <typename T, Memory kMemory>
void load_step(const ChainStep* s, std::size_t i, V<T>, V<T>, V<T>, V<T>, V<T>, V<T>, V<T>, V<T>) {
  load_and_go<T, kMemory>(s, i);
}

template <typename T, bool kStreamed>
void store_step(const ChainStep* s, std::size_t i, V<T> v0, V<T> v1, V<T> v2, V<T> v3, V<T> v4, V<T> v5, V<T> v6,
                V<T> v7) {
  put<T, kStreamed>(v0, s, i, 0);
  put<T, kStreamed>(v1, s, i, 1);
  put<T, kStreamed>(v2, s, i, 2);
  put<T, kStreamed>(v3, s, i, 3);
  put<T, kStreamed>(v4, s, i, 4);
  put<T, kStreamed>(v5, s, i, 5);
  put<T, kStreamed>(v6, s, i, 6);
  put<T, kStreamed>(v7, s, i, 7);
  run_of<T>(s + 1)(s + 1, i, v0, v1, v2, v3, v4, v5, v6, v7);
}

template <typename T>
void end_step(const ChainStep*, std::size_t, V<T>, V<T>, V<T>, V<T>, V<T>, V<T>, V<T>, V<T>) {}

template <typename T, typename F>
void unary_step(const ChainStep* s, std::size_t i, V<T> v0, V<T> v1, V<T> v2, V<T> v3, V<T> v4, V<T> v5, V<T> v6,
                V<T> v7) {
  run_of<T>(s + 1)(s + 1, i, F::apply(v0), F::apply(v1), F::apply(v2), F::apply(v3), F::apply(v4), F::apply(v5),
                   F::apply(v6), F::apply(v7));
}

template <typename T, typename F, Memory kMemory>
void binary_step(const ChainStep* s, std::size_t i, V<T> v0, V<T> v1, V<T> v2, V<T> v3, V<T> v4, V<T> v5, V<T> v6,
                 V<T> v7) {
  const T* const from = data_of<T>(s);
  v0 = F::apply(v0, load<T, kMemory>(from, i, 0));
  v1 = F::apply(v1, load<T, kMemory>(from, i, 1));
  v2 = F::apply(v2, load<T, kMemory>(from, i, 2));
  v3 = F::apply(v3, load<T, kMemory>(from, i, 3));
  v4 = F::apply(v4, load<T, kMemory>(from, i, 4));
  v5 = F::apply(v5, load<T, kMemory>(from, i, 5));
  v6 = F::apply(v6, load<T, kMemory>(from, i, 6));
  v7 = F::apply(v7, load<T, kMemory>(from, i, 7));
  run_of<T>(s + 1)(s + 1, i, v0, v1, v2, v3, v4, v5, v6, v7);
}

// Elements outside of the range of the function are rare, and computed one by one.
template <typename T, class F>
HWY_NOINLINE void mended_step(const ChainStep* s, std::size_t i, V<T> v0, V<T> v1, V<T> v2, V<T> v3, V<T> v4, V<T> v5,
                              V<T> v6, V<T> v7) {
  const D<T> d;
  run_of<T>(s + 1)(s + 1, i, mended<F>(d, v0), mended<F>(d, v1), mended<F>(d, v2), mended<F>(d, v3), mended<F>(d, v4),
                   mended<F>(d, v5), mended<F>(d, v6), mended<F>(d, v7));
}

template <typename T, class F>
bool all_in_range(V<T> v0, V<T> v1, V<T> v2, V<T> v3) {
  const D<T> d;
  return hn::AllTrue(d, hn::And(hn::And(is_in_range<F>(d, v0), is_in_range<F>(d, v1)),
                                hn::And(is_in_range<F>(d, v2), is_in_range<F>(d, v3))));
}

template <typename T, class F>
void function_step(const ChainStep* s, std::size_t i, V<T> v0, V<T> v1, V<T> v2, V<T> v3, V<T> v4, V<T> v5, V<T> v6,
                   V<T> v7) {
  const D<T> d;
  if (all_in_range<T, F>(v0, v1, v2, v3) && all_in_range<T, F>(v4, v5, v6, v7)) [[likely]] {
    run_of<T>(s + 1)(s + 1, i, F::vector(d, v0), F::vector(d, v1), F::vector(d, v2), F::vector(d, v3), F::vector(d, v4),
                     F::vector(d, v5), F::vector(d, v6), F::vector(d, v7));
  } else {
    mended_step<T, F>(s, i, v0, v1, v2, v3, v4, v5, v6, v7);
  }
}

// The larger; x if it is NaN, else y if that is.
template <class W>
W pick(W x, W y, hn::Mask<hn::DFromV<W>> x_wins) {
  return hn::IfThenElse(hn::Or(x_wins, hn::IsNaN(x)), x, y);
}

// clang-format off
struct Negative { template <class W> static W apply(W x) { return hn::Neg(x); } };
struct Abs { template <class W> static W apply(W x) { return hn::Abs(x); } };
struct Square { template <class W> static W apply(W x) { return hn::Mul(x, x); } };
struct Sqrt { template <class W> static W apply(W x) { return hn::Sqrt(x); } };
struct Reciprocal { template <class W> static W apply(W x) {
  return hn::Div(hn::Set(hn::DFromV<W>(), hn::TFromV<W>{1}), x); } };
struct Add { template <class W> static W apply(W x, W y) { return hn::Add(x, y); } };
struct Subtract { template <class W> static W apply(W x, W y) { return hn::Sub(x, y); } };
struct Multiply { template <class W> static W apply(W x, W y) { return hn::Mul(x, y); } };
struct Divide { template <class W> static W apply(W x, W y) { return hn::Div(x, y); } };
struct Maximum { template <class W> static W apply(W x, W y) { return pick(x, y, hn::Gt(x, y)); } };
struct Minimum { template <class W> static W apply(W x, W y) { return pick(x, y, hn::Lt(x, y)); } };
// clang-format on

template <typename T, typename F>
Run<T> find_binary(Memory memory) {
  return memory == Memory::kRepeated ? binary_step<T, F, Memory::kRepeated> : binary_step<T, F, Memory::kElements>;
}

template <typename T>
Run<T> find_apply(Op op, Memory memory) {
  switch (op) {
    case Op::kNegative: return unary_step<T, Negative>;
    case Op::kAbs: return unary_step<T, Abs>;
    case Op::kSquare: return unary_step<T, Square>;
    case Op::kSqrt: return unary_step<T, Sqrt>;
    case Op::kReciprocal: return unary_step<T, Reciprocal>;
    case Op::kAdd: return find_binary<T, Add>(memory);
    case Op::kSubtract: return find_binary<T, Subtract>(memory);
    case Op::kMultiply: return find_binary<T, Multiply>(memory);
    case Op::kDivide: return find_binary<T, Divide>(memory);
    case Op::kMaximum: return find_binary<T, Maximum>(memory);
    case Op::kMinimum: return find_binary<T, Minimum>(memory);
    case Op::kExp: return function_step<T, Exp>;
    case Op::kLog: return function_step<T, Log>;
    case Op::kLog2: return function_step<T, Log2>;
    case Op::kLog10: return function_step<T, Log10>;
    case Op::kSin: return function_step<T, Sin>;
    case Op::kCos: return function_step<T, Cos>;
    case Op::kTanh: return function_step<T, Tanh>;
    case Op::kAtan: return function_step<T, Atan>;
    case Op::kSigmoid: return function_step<T, Sigmoid>;
    default: return nullptr;
  }
}

template <typename T>
Run<T> find(StepKind kind, Op op, Memory memory) {
  switch (kind) {
    case StepKind::kLoad:
      return memory == Memory::kRepeated ? load_step<T, Memory::kRepeated> : load_step<T, Memory::kElements>;
    case StepKind::kApply: return find_apply<T>(op, memory);
    case StepKind::kStore: return memory == Memory::kStreamed ? store_step<T, true> : store_step<T, false>;
    case StepKind::kEnd: return end_step<T>;
  }
  return nullptr;
}

using Any = void (*)();

Any find_step_here(StepKind kind, Op op, Compute type, Memory memory) {
  return type == Compute::kF32 ? reinterpret_cast<Any>(find<float>(kind, op, memory))
                               : reinterpret_cast<Any>(find<double>(kind, op, memory));
}

template <typename T, Memory kMemory>
void run_all(const ChainStep* s, std::size_t n) {
  static_assert(kPad % (kWidth * hn::MaxLanes(D<T>())) == 0);
  const std::size_t width = kWidth * hn::Lanes(D<T>());
  for (std::size_t i = 0; i < n; i += width) load_and_go<T, kMemory>(s, i);
}

template <typename T>
void run_type(Memory first, const ChainStep* steps, std::size_t n) {
  if (first == Memory::kRepeated) {
    run_all<T, Memory::kRepeated>(steps, n);
  } else {
    run_all<T, Memory::kElements>(steps, n);
  }
}

void run_chain_here(Compute type, Memory first, const ChainStep* steps, std::size_t n) {
  if (type == Compute::kF32) {
    run_type<float>(first, steps, n);
  } else {
    run_type<double>(first, steps, n);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ebb::array
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ebb::array {

HWY_EXPORT(find_step_here);
HWY_EXPORT(run_chain_here);

bool is_chained(Op op, Compute type) {
  if (type != Compute::kF32 && type != Compute::kF64) return false;
  return HWY_DYNAMIC_DISPATCH(find_step_here)(StepKind::kApply, op, type, Memory::kElements) != nullptr;
}
ChainStep find_step(StepKind kind, Op op, Compute type, Memory memory) {
  return {HWY_DYNAMIC_DISPATCH(find_step_here)(kind, op, type, memory), nullptr};
}
void run_chain(Compute type, Memory first, const ChainStep* steps, std::size_t n) {
  HWY_DYNAMIC_DISPATCH(run_chain_here)(type, first, steps, n);
}

}  // namespace ebb::array
#endif
