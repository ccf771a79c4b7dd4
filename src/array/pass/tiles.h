// Tiles: evaluates a program for consecutive elements of an iteration space, a tile at a time.
//
// The space is a list of sizes; an operand has a stride in it for each dimension. Whatever the strides, a tile is the
// elements [start, start + n) of the space in C order: an operand that lies just so is read where it is, another is
// gathered into a register first. One Tiles per task; its registers belong to the thread and are reused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "array/pass/program.h"

namespace ebb::array {

// How one array lies in an iteration space.
struct Layout {
  Dims strides;
  bool linear = false;   // element i of the space is element i of memory
  bool repeats = false;  // all strides are 0: one element
};

struct Space {
  Dims sizes;
  std::int64_t count = 1;
  std::vector<Layout> layouts;
};

// Merges neighbouring dimensions that every layout walks through as one; decides `linear` and `repeats`.
Space make_space(const Dims& sizes, std::vector<Dims> strides);

class Tiles {
 public:
  // `operands` and `space.layouts` correspond. All must outlive this.
  Tiles(const Program& program, const std::vector<NodePtr>& operands, const Space& space);

  // The result for elements [start, start + n), n <= kTile, in a register; good until the next call. `direct`, if not
  // null, is where the result may be written instead, which is told by returning it; `stream`: only around the cache.
  const void* run(std::int64_t start, std::size_t n, void* direct, bool stream = false);

 private:
  const void* fetch(std::size_t operand, std::int64_t start, std::size_t n);
  void bind_chain(const Chain& chain);
  void run_chain_of(const Instruction& instruction, void* direct, bool stream, std::size_t n);

  struct Bound {
    const std::byte* data;
    LoadKernel load;
    std::size_t stored_bytes, value_bytes;
    bool in_place, filled;
    std::byte* reg;
  };

  struct BoundChain {
    Memory first;
    std::vector<ChainStep> steps;
    ChainStep store, stream;  // of the result
  };

  const Program& program_;
  const Space& space_;
  std::vector<Bound> operands_;
  std::vector<const void*> values_;
  std::vector<BoundChain> chains_;
};

// Loads or stores elements [start, start + n) of the space, gathered or scattered by `layout`.
void load_range(LoadKernel load, const std::byte* data, std::size_t element, const Space& space, const Layout& layout,
                std::int64_t start, std::size_t n, std::byte* out, std::size_t out_element);
void store_range(StoreKernel store, const std::byte* values, std::size_t value_element, const Space& space,
                 const Layout& layout, std::int64_t start, std::size_t n, std::byte* data, std::size_t element);

// Registers of this thread: `bytes` of 64-byte aligned memory, valid until the next call on it.
std::byte* thread_scratch(std::size_t bytes);

}  // namespace ebb::array
