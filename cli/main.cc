// The program `ebb`: every Error becomes one line on stderr and exit code 2.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <string>
#include <vector>

#include "command_line.h"
#include "drivers/linux/system/system_files.h"

int main(int argc, char** argv) {
  using ebb::cli::CommandLine;
  try {
    CommandLine line;
    const auto done = line.read(std::vector<std::string>(argv + std::min(argc, 1), argv + argc));
    return done ? *done : line.run();
  } catch (const std::exception& error) {
    ebb::write_all(STDERR_FILENO, fmt::format("ebb: {}\n", error.what()));
    return CommandLine::kUsageCode;
  }
}
