// make_guide: a Guide out of a trace that begins where the program begins: nothing in it was there before. Tensors that
// the trace calls persistent are taken to be made first.
//
// A pure function but for what its caller's places remember.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "plan/guide/guide.h"
#include "plan/trace.h"

namespace ebb {

// Where a program's allocations would lie: the same rules as when it runs, so that a plan for pieces of the space is
// about the right ones as far as can be known.
class GuidePlaces {
 public:
  struct Place {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;  // as the program's allocation would have; 0: it would not be managed, or found no place
    BlockRange blocks;
  };
  virtual ~GuidePlaces() = default;
  virtual Place allocate(std::uint64_t bytes, std::uint64_t serial) = 0;
  virtual void free(std::uint64_t offset) = 0;
  virtual void step() = 0;  // an iteration is over
};

// `op_of` gives the number that a launch has, by its index in Trace::ops. Null if the trace has no launch that would be
// announced, or too many events for a recording.
std::unique_ptr<Guide> make_guide(const Trace& trace, GuidePlaces& places,
                                  const std::function<std::uint64_t(std::uint32_t)>& op_of);

}  // namespace ebb
