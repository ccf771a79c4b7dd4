// Where the account of a run goes: the terminal, and the files that were asked for. Main thread.
#pragma once

#include <optional>
#include <string>

#include "run/run_command.h"
#include "run/summary.h"

namespace ebb::cli {

struct Outputs {
  // Throws Error for a file that cannot be written, before the program starts.
  explicit Outputs(const RunArguments& arguments);
  std::optional<SummaryFile> summary;
  std::optional<SummaryFile> report;
  std::optional<SummaryFile> events;
};

// The program's result stands whatever becomes of the account of it, so trouble here is only told. `recording`: a trace
// of one iteration, for the advice in a report; there may be none.
void publish(const RunAccount& account, const RunArguments& arguments, const Outputs& outputs,
             const std::string& recording);

}  // namespace ebb::cli
