// See trace_events.h.
#include "run/report/trace_events.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "chrome_event.h"

namespace ebb::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kStepThread = 1;
constexpr int kWaitThread = 2;  // and those after it, where waits overlap

Json slice(const std::string& name, const char* category, double ts, double duration, int thread) {
  Json event = chrome_slice(name, thread, ts, duration);
  event["cat"] = category;
  return event;
}

// One behind the other: the steps that are kept, if those are all.
void add_steps(const RunAccount& account, const RunTimeline& timeline, Json& events) {
  if (timeline.first_step_ns < timeline.opened_ns || account.step_seconds.size() != account.step_count) return;
  double at = microseconds(timeline.first_step_ns - timeline.opened_ns);
  for (std::size_t i = 0; i < account.step_seconds.size(); ++i) {
    const double duration = account.step_seconds[i] * 1e6;
    events.push_back(slice(fmt::format("step {}", i + 2), "step", at, duration, kStepThread));
    at += duration;
  }
}

int add_waits(const RunAccount& account, const RunTimeline& timeline, Json& events) {
  std::vector<std::uint64_t> ends;  // of the last wait in each row
  for (const LongWait& wait : account.waits.longest) {
    const auto free = std::find_if(ends.begin(), ends.end(), [&](std::uint64_t end) { return end <= wait.begin_ns; });
    const auto row = static_cast<int>(free - ends.begin());
    if (free == ends.end()) ends.push_back(0);
    ends[static_cast<std::size_t>(row)] = wait.begin_ns + wait.ns;
    const double ts = microseconds(wait.begin_ns - std::min(wait.begin_ns, timeline.opened_ns));
    Json event = slice(wait.module, "wait", ts, microseconds(wait.ns), kWaitThread + row);
    event["args"] = {{"operator", wait.op},
                     {"cause", kWaitCauseNames[static_cast<std::size_t>(wait.cause)]},
                     {"kind", kTensorKindNames[static_cast<std::size_t>(wait.kind)]}};
    events.push_back(std::move(event));
  }
  return static_cast<int>(ends.size());
}

void add_counters(const RunTimeline& timeline, Json& events) {
  for (std::uint64_t i = 0; i < timeline.samples; ++i) {
    const TimelineSample& now = timeline.sample[i];
    const double ts = microseconds(now.at_ns);
    events.push_back(chrome_counter("memory", ts, {{"bytes", now.resident}}));
    events.push_back(chrome_counter("flash", ts, {{"bytes", now.flash}}));
    if (i == 0) continue;
    const TimelineSample& before = timeline.sample[i - 1];
    const double seconds = static_cast<double>(std::max<std::uint64_t>(now.at_ns - before.at_ns, 1)) / 1e9;
    const auto rate = [seconds](std::uint64_t from, std::uint64_t to) {
      return static_cast<double>(to - from) / seconds;
    };
    events.push_back(chrome_counter("read", ts, {{"bytes/s", rate(before.fetched, now.fetched)}}));
    events.push_back(chrome_counter("written", ts, {{"bytes/s", rate(before.evicted, now.evicted)}}));
    events.push_back(chrome_counter("waited", ts, {{"%", rate(before.stall_ns, now.stall_ns) / 1e7}}));
  }
}

}  // namespace

nlohmann::ordered_json trace_events(const RunAccount& account, const RunTimeline& timeline) {
  Json events = Json::array();
  events.push_back(chrome_name("process_name", 0, fmt::format("ebb run -- {}", fmt::join(account.command, " "))));
  events.push_back(chrome_name("thread_name", kStepThread, "steps"));
  add_steps(account, timeline, events);
  const int rows = add_waits(account, timeline, events);
  for (int row = 0; row < rows; ++row) events.push_back(chrome_name("thread_name", kWaitThread + row, "waits"));
  add_counters(timeline, events);
  Json json;
  json["traceEvents"] = std::move(events);
  json["displayTimeUnit"] = "ms";
  return json;
}

}  // namespace ebb::cli
