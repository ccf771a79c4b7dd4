// read_trace: an `ebb-trace` file (docs/trace.md) as a Trace, line by line; the file is never in memory as a whole.
//
// Pure functions on the calling thread. What they return keeps check(): a file that does not is refused with an Error
// that reads "FILE:LINE: what is wrong; the remedy". Limits: Trace::k…Max, LineReader::k…Max.
#pragma once

#include <istream>
#include <string>

#include "plan/trace.h"
#include "trace/byte_source.h"

namespace ebb {

// Plain, gzip or Zstandard, as its first bytes say; "-" is standard input.
Trace read_trace(const std::string& path);
// Likewise from a stream; `name` stands for the file in errors.
Trace read_trace(std::istream& stream, const std::string& name);
Trace read_trace(PeekableSource& source);

}  // namespace ebb
