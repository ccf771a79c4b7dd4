// import_trace: any file that Ebbtide can make a trace of: ebb-trace itself, PyTorch execution traces, Chakra execution
// traces; plain, gzip or Zstandard. What it is, is told by how it begins.
//
// Pure functions on the calling thread; errors as in reader.h. The trace keeps check().
#pragma once

#include <istream>
#include <string>

#include "trace/import_graph.h"

namespace ebb {

// "-" is standard input. The notes say what the file does not carry and what was guessed; none for an ebb-trace.
Import import_trace(const std::string& path);
Import import_trace(std::istream& stream, const std::string& name);

}  // namespace ebb
