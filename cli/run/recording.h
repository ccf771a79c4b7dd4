// `ebb run --record-iterations`: what the program is told of it, and what is said when it made fewer than asked for.
// Stateless.
#pragma once

#include <string>

#include "run/child_process.h"
#include "run/run_command.h"

namespace ebb::cli {

// Throws Error that names the option.
void add_record_iterations(const RunArguments& arguments, Variables& variables);

// After the program's end: "" or why the trace has fewer iterations than were asked for.
std::string recording_shortfall(const RunArguments& arguments);

}  // namespace ebb::cli
