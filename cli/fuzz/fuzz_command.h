// `ebb fuzz`: fuzzes the core in the simulated world. Writes its results to stdout, and how far it is to stderr if that
// is a terminal; one thread, and children that run the programs.
#pragma once

#include <string>

namespace ebb::cli {

struct FuzzArguments {
  std::string seed;  // empty: at random
  std::string minutes;
  std::string runs;
  std::string operations;
  std::string replay;
  std::string save;
  bool json = false;
};

// The exit code: 1 if something failed. Throws Error for what the user gave.
int fuzz(const FuzzArguments& arguments);

}  // namespace ebb::cli
