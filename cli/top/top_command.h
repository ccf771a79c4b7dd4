// `ebb top`: what the runs of this user are doing, as a screen that is redrawn, as one table, or as JSON. Main thread.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace ebb::cli {

struct TopArguments {
  std::string interval;  // seconds; empty: one
  bool once = false;
  bool json = false;
};

CLI::App* add_top(CLI::App& app, TopArguments& arguments);

// The exit code. Ends this process by the signal that ended the view, unless that was Ctrl-C.
int show_runs(const TopArguments& arguments);

}  // namespace ebb::cli
