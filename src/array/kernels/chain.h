// Chains: operators whose values stay in vector registers of the processor from a load to a store. A combined operator
// of arithmetic and vector functions is then bound by memory, which arrives while functions are computed, and not by
// the trips of its intermediate values through the cache.
//
// A chain is a list of steps on one accumulator, which is eight vectors wide; each step ends in a jump to the next
// with the accumulator in registers (threaded code). Steps are chosen for this processor when looked up; pure.
//
// Invariant: an operator of f32 or f64 that has a step is never run by a tile kernel, so that combining changes no bit:
// not even of the NaN that comes out when both operands are one, which is why the accumulator is always the left one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "array/kernels/kernel.h"

namespace ebb::array {

struct ChainStep {
  void (*run)();  // of a type that only the kernels know
  const void* data;
};

enum class StepKind : std::uint8_t {
  kLoad,   // accumulator := data
  kApply,  // accumulator := op(accumulator, data), or op(accumulator)
  kStore,  // data := accumulator, which stays
  kEnd
};
enum class Memory : std::uint8_t {
  kElements,  // element i of the tile is element i of data
  kRepeated,  // data is one element
  kStreamed   // of a store: written around the cache; data is 64-byte aligned
};

// Whether `op` on operands of `type` has a step.
bool is_chained(Op op, Compute type);
// `op` matters to kApply only.
ChainStep find_step(StepKind kind, Op op, Compute type, Memory memory);
// Runs the steps, of which the first is a load and the last the end, over n elements; n is a multiple of kPad.
void run_chain(Compute type, Memory first, const ChainStep* steps, std::size_t n);

}  // namespace ebb::array
