// Course: the columns and rows for what a group of contents does at one depth: leaving device memory and returning to
// it, or the part of that which goes on to flash and comes back. In each slot, bytes stand in one of three pools: still
// here, absent, back again. A pool is what it was, plus what came, minus what went. Within a group, bytes are not told
// apart.
//
// Made once by add_course(), then only read. The proof is in docs/design/0005-lower-bound.md.
#pragma once

#include <cstdint>
#include <vector>

#include "bound/fluid.h"
#include "bound/program.h"

namespace ebb::fluid {

inline constexpr double kByteScale = 1e-9;  // the program counts in GB and seconds, near 1 for the solver's tolerances
inline double scaled(std::uint64_t bytes) { return static_cast<double>(bytes) * kByteScale; }

struct Course {
  using Columns = std::vector<Program::Column>;
  Columns out, in;               // by slot: leaving and returning
  Columns here, absent, back;    // by slot, at its end
  Columns written;               // by slot: bytes written out; the same as `out` if all is written
  std::vector<Columns> amounts;  // by class, by absence: how much is absent
};

// `reach`: more GB than ever move in an iteration, or wait to.
Course add_course(Program& program, const Group& group, std::uint32_t slots, double reach, Copies copies);

// A row: part <= whole.
void add_at_most(Program& program, Program::Column part, Program::Column whole);

}  // namespace ebb::fluid
