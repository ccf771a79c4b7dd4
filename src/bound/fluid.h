// Fluid: the vitality of a trace as the linear program sees it: time cut into slots, and inactive periods with the same
// course through the slots gathered into classes. The cut is where a long trace is made small.
//
// Time runs: launch 0, gap 0, launch 1, gap 1, …, in a circle; a launch waits in the gap before it. A slot holds whole
// launches and gaps in a row. Of a sequence, the circle is closed by a slot that stands for all time outside: it may
// take as long as one likes for nothing, and holds no launch.
//
// Owned by lower_bound(); plain data, read only once made.
#pragma once

#include <cstdint>
#include <vector>

#include "bound/lower_bound.h"
#include "plan/vitality.h"

namespace ebb::fluid {

struct Slot {
  std::uint64_t ns = 0;           // of its launches
  bool stalls = false;            // it has a gap
  bool outside = false;           // before and after the sequence
  std::uint64_t first_bytes = 0;  // vital at the launch that it starts with; 0: it starts with a gap
  std::uint64_t most_bytes = 0;   // vital at any of its launches
};

struct Absence {
  std::uint32_t begin = 0;   // the slot in which the first bytes may leave
  std::uint32_t due = 0;     // the slot at whose end all must be back, or is dead
  bool returns = true;       // it does not where nobody reads it any more
  bool crosses = false;      // open at the end of the iteration
  bool made_before = false;  // from when its content was made to `due`: over the end of the iteration
  bool operator==(const Absence&) const = default;
  auto operator<=>(const Absence&) const = default;
};

// Contents with the same course: when made, and when each may be absent, the first absence after it was made first.
struct Class {
  std::uint32_t made = 0;  // the slot from which on it can be written out
  bool clean = false;      // never written: the copy below is always good
  std::vector<Absence> absences;
  std::size_t leads = 0;  // the first absence that is not short beside the longest
  std::uint64_t bytes = 0;
};

// Contents whose bytes are not told apart. Those of persistent tensors are apart from the others: what is written of
// weights while they are updated must not let activations leave.
using Group = std::vector<Class>;

struct Fluid {
  std::vector<Slot> slots;
  std::vector<Group> groups;  // none is empty
};

Fluid make_fluid(const Vitality& vitality, const BoundOptions& options);

// So much must be absent at the end of a slot; or at some moment within it: what was absent at its start and what has
// left since.
struct MemoryLimit {
  std::uint32_t slot = 0;
  bool within = false;
  std::uint64_t absent_bytes = 0;
};
std::vector<MemoryLimit> memory_limits(const Fluid& fluid, std::uint64_t device_bytes);

}  // namespace ebb::fluid
