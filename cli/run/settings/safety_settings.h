// The options of `ebb run` that say who may see what a program computes with, and what proves that it came back as it
// was. Main thread.
#pragma once

#include "run/child_process.h"
#include "run/run_command.h"

namespace ebb::cli {

// Adds what the runtimes of the program are to be told. Throws Error where it cannot be had.
void add_safety_settings(const RunArguments& arguments, bool on_device, Variables& variables);

}  // namespace ebb::cli
