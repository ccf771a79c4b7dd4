// `ebb calibrate`: how fast this machine computes and how fast its flash is, measured and kept. Main thread.
#pragma once

#include <string>
#include <string_view>

namespace ebb::cli {

struct CalibrateArguments {
  std::string flash;   // a directory; empty: as `ebb run` chooses
  std::string python;  // an interpreter; empty: as `ebb doctor` chooses
  bool json = false;
};

// The exit code: 0, or 1 if no Python with torch was found. Throws Error for what the user gave.
int calibrate_machine(const CalibrateArguments& arguments);

// A line on the terminal that says what is being measured; cleared by an empty text. Nothing if there is no terminal.
void show_progress(int terminal, std::string_view text);

}  // namespace ebb::cli
