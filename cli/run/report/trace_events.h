// What happened over a run in Chrome's trace event format, which Perfetto and chrome://tracing open: steps, the longest
// waits, and as counters memory and traffic. Pure function.
#pragma once

#include <nlohmann/json.hpp>

#include "ebb/waits/run_timeline.h"
#include "run/summary.h"

namespace ebb::cli {

// Times are microseconds since memory began to be managed.
nlohmann::ordered_json trace_events(const RunAccount& account, const RunTimeline& timeline);

}  // namespace ebb::cli
