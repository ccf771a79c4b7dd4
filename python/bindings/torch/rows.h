// Rows: the operators that use a few rows of a large table, and which. A language model looks up one row of its
// embedding for a token; of a layer's experts, which are one tensor, a token uses two or eight; a recommender looks up
// rows of tables, and its optimizer adds sparse gradients to them.
//
// Rows are told by reading their numbers, some nanoseconds each. Stateless; any thread.
#pragma once

#include "bindings/torch/accesses.h"

namespace ebb::torch_adapter {

// Of an operator that uses a few rows of a large table: adds these rows alone, whose blocks are fetched together, and
// what it uses besides. They are another few each time, nothing to plan by, so what the operator is made of had better
// not be announced. False: it is another operator, or most of the table may be used, and nothing was added.
// `written`: which arguments are (written_arguments()).
bool add_rows(const Runtime& runtime, std::uint64_t op, Arguments arguments, std::uint64_t written, Accesses& accesses);

}  // namespace ebb::torch_adapter
