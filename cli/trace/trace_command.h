// `ebb trace`: what a trace holds, and its conversion from the formats of other tools. Main thread.
#pragma once

#include <string>

namespace ebb::cli {

struct TraceArguments {
  std::string file;  // "-": standard input
  std::string to;    // empty: convert nothing
  bool json = false;
};

int show_trace(const TraceArguments& arguments);

}  // namespace ebb::cli
