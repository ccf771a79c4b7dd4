// `ebb report`: a report that `ebb run --report` has written, as data or as a page, in words or as a page of this
// version. Main thread.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace ebb::cli {

struct ReportArguments {
  std::string file;  // "-": standard input
  std::string to;    // empty: it is told in words
  bool json = false;
};

CLI::App* add_report(CLI::App& app, ReportArguments& arguments);

int show_report(const ReportArguments& arguments);

}  // namespace ebb::cli
