// A trace in Chrome's trace event format, which Perfetto and chrome://tracing open: launches one behind the other,
// iterations, and as a counter the bytes that are alive. Pure function.
#pragma once

#include <string>

#include "plan/trace.h"

namespace ebb::cli {

// `trace` keeps check(). Times are microseconds from the first launch; one whose duration is unknown gets one.
std::string chrome_events(const Trace& trace);

}  // namespace ebb::cli
