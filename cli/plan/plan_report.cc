// See plan_report.h.
#include "plan/plan_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "ebb/units.h"
#include "json_text.h"
#include "machine_options.h"
#include "text.h"
#include "warm_up.h"

namespace ebb::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kKinds = 7;
constexpr std::array<const char*, kKinds> kKindNames{"weight",     "gradient",  "optimizer", "input",
                                                     "activation", "workspace", "other"};

struct Sum {
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
};

std::array<Sum, kKinds> sums_by_kind(const PlanFindings& findings) {
  std::array<Sum, kKinds> sums{};
  for (std::size_t i = 0; i < findings.trace.tensors.size(); ++i) {
    Sum& sum = sums[static_cast<std::size_t>(findings.trace.tensors[i].kind)];
    ++sum.count;
    sum.bytes += findings.vitality.tensors[i].bytes;
  }
  return sums;
}

Sum sum_of_persistent(const Vitality& vitality) {
  Sum sum;
  for (const auto& life : vitality.tensors) {
    if (!life.persistent) continue;
    ++sum.count;
    sum.bytes += life.bytes;
  }
  return sum;
}

Sum sum_of_periods(const Vitality& vitality) {
  Sum sum{vitality.periods.size(), 0};
  for (const auto& period : vitality.periods) sum.bytes += period.bytes;
  return sum;
}

// Of all that is alive over time, in byte-seconds, how much lies idle.
double idle_share(const Vitality& vitality) {
  double alive = 0;
  double idle = 0;
  for (std::size_t k = 0; k < vitality.live_bytes.size(); ++k) {
    alive += static_cast<double>(vitality.live_bytes[k]) *
             static_cast<double>(vitality.start_ns[k + 1] - vitality.start_ns[k]);
  }
  for (const auto& period : vitality.periods) {
    idle += static_cast<double>(period.bytes) * static_cast<double>(period.ns);
  }
  return alive > 0 ? idle / alive : 0;
}

std::string bound_text(const Bound& bound) {
  if (bound.outcome == Bound::Outcome::kUnknown)
    return fmt::format("{}, the kernels alone", format_nanoseconds(bound.total_ns()));
  if (bound.stall_ns == 0) return fmt::format("{}: nothing has to stall", format_nanoseconds(bound.total_ns()));
  const double share =
      bound.ideal_ns > 0 ? 100.0 * static_cast<double>(bound.stall_ns) / static_cast<double>(bound.ideal_ns) : 0;
  return fmt::format("{}: stalls {} (+{:.1f} %); {} binds, 1 % more of it saves {}",
                     format_nanoseconds(bound.total_ns()), format_nanoseconds(bound.stall_ns), share,
                     name(bound.binding), format_seconds(bound.gain_ns[static_cast<std::size_t>(bound.binding)] / 1e9));
}

const char* outcome_name(Bound::Outcome outcome) {
  switch (outcome) {
    case Bound::Outcome::kFits: return "fits";
    case Bound::Outcome::kBounded: return "bounded";
    case Bound::Outcome::kStreams: return "streams";
    case Bound::Outcome::kNoRoom: return "no_room";
    case Bound::Outcome::kUnknown: break;
  }
  return "unknown";
}

// What the bounds are of, and a verb.
std::string subject(const PlanFindings& findings, const char* one, const char* many) {
  const bool sequence = findings.trace.sequence;
  const std::string what = sequence ? counted_iterations(findings.trace, findings.warm_up) : "an iteration";
  const char* const verb = sequence ? many : one;
  return *verb == '\0' ? what : fmt::format("{} {}", what, verb);
}

// Bounds count launches from the first one that counts.
std::uint32_t streaming_launch(const PlanFindings& findings, const Bound& bound) {
  return bound.streaming_launch + (findings.trace.sequence ? findings.trace.begin_after(findings.warm_up) : 0);
}

std::string key(Resource resource) {
  std::string text = name(resource);
  std::replace(text.begin(), text.end(), ' ', '_');
  return text;
}

Json bound_json(const PlanFindings& findings, const Bound& bound) {
  Json gains = Json::object();
  for (std::size_t i = 0; i < kResources; ++i) gains[key(static_cast<Resource>(i))] = bound.gain_ns[i];
  Json json{{"outcome", outcome_name(bound.outcome)},
            {"total_ns", bound.total_ns()},
            {"stall_ns", bound.stall_ns},
            {"binding", bound.stall_ns > 0 ? Json(key(bound.binding)) : Json(nullptr)},
            {"gain_ns_per_percent", gains},
            {"slots", bound.slots}};
  if (bound.outcome == Bound::Outcome::kStreams) json["streaming_launch"] = streaming_launch(findings, bound);
  return json;
}

}  // namespace

std::string launch_text(const Trace& trace, std::uint32_t launch) {
  const std::uint32_t op = trace.launches[launch].op;
  const std::string name = op < trace.ops.size() ? fmt::format(" ({})", trace.ops[op]) : "";
  return fmt::format("launch {}{}", launch, name);
}

std::string describe_memory(const PlanFindings& findings) {
  const Trace& trace = findings.trace;
  const Vitality& vitality = findings.vitality;
  std::string out = fmt::format("{}{}: {} launches, {} of kernels\n\n", trace.model.empty() ? "trace" : trace.model,
                                trace.batch > 0 ? fmt::format(", batch {}", trace.batch) : "", trace.launches.size(),
                                format_nanoseconds(vitality.ideal_ns()));
  const auto sums = sums_by_kind(findings);
  out += fmt::format("{:<22}{:>8}{:>13}\n", "tensors", "count", "bytes");
  for (std::size_t kind = 0; kind < kKinds; ++kind) {
    if (sums[kind].count == 0) continue;
    out += fmt::format("  {:<20}{:>8}{:>13}\n", kKindNames[kind], sums[kind].count, format_size(sums[kind].bytes));
  }
  const Sum persistent = sum_of_persistent(vitality);
  out += fmt::format("  {:<20}{:>8}{:>13}\n", "of these persistent", persistent.count, format_size(persistent.bytes));
  const Sum periods = sum_of_periods(vitality);
  out += fmt::format("  {:<20}{:>8}{:>13}, idle for {:.0f} % of all bytes x time alive\n\n", "inactive periods",
                     periods.count, format_size(periods.bytes), 100 * idle_share(vitality));
  if (trace.launches.empty()) return out;
  out += fmt::format("live at most        {:>10} at {}\n", format_size(vitality.peak_live_bytes),
                     launch_text(trace, vitality.peak_live_launch));
  out += fmt::format("working set at most {:>10} at {}\n", format_size(vitality.working_set_bytes_max),
                     launch_text(trace, vitality.working_set_max_launch));
  if (vitality.unknown_durations > 0) {
    out += fmt::format("{} launches have no time and count as 0: the bounds below are lower than they could be\n",
                       vitality.unknown_durations);
  }
  return out;
}

std::string describe_bounds(const PlanFindings& findings) {
  const Bound& bound = findings.kept;
  std::string out = fmt::format("\nmachine: {}\n", describe(findings.machine));
  switch (bound.outcome) {
    case Bound::Outcome::kFits:
      return out + fmt::format("It fits: {} {} at least, {} kernels.\n", subject(findings, "takes", "take"),
                               format_nanoseconds(bound.ideal_ns), findings.trace.sequence ? "their" : "its");
    case Bound::Outcome::kStreams:
      return out + fmt::format(
                       "It does not fit: {} touches {} at once, and device memory is {}. Such a launch has to "
                       "be split, or its data streamed while it runs.\n",
                       launch_text(findings.trace, streaming_launch(findings, bound)),
                       format_size(findings.counted.working_set_bytes_max), format_size(findings.machine.device_bytes));
    case Bound::Outcome::kNoRoom:
      return out + fmt::format("It does not fit: {} more than all memory is needed, and there is no flash.\n",
                               format_size(bound.must_leave_host_bytes));
    case Bound::Outcome::kBounded:
    case Bound::Outcome::kUnknown: break;
  }
  out += fmt::format("It does not fit at once: {} must be elsewhere at the fullest launch",
                     format_size(bound.must_leave_bytes));
  if (bound.must_leave_host_bytes > 0)
    out += fmt::format(", {} of it on flash", format_size(bound.must_leave_host_bytes));
  out += fmt::format(".\n\nNo schedule of transfers makes {} faster than this:\n", subject(findings, "", ""));
  out += "  clean copies kept below    " + bound_text(findings.kept) + "\n";
  out += "  all that leaves is written " + bound_text(findings.written) + "\n";
  return out;
}

std::string to_json(const PlanFindings& findings) {
  const Trace& trace = findings.trace;
  const Vitality& vitality = findings.vitality;
  const Machine& machine = findings.machine;
  const auto sums = sums_by_kind(findings);
  Json kinds = Json::object();
  for (std::size_t kind = 0; kind < kKinds; ++kind) {
    if (sums[kind].count > 0) kinds[kKindNames[kind]] = {{"count", sums[kind].count}, {"bytes", sums[kind].bytes}};
  }
  const Sum persistent = sum_of_persistent(vitality);
  const Sum periods = sum_of_periods(vitality);
  const Json json{{"model", trace.model},
                  {"batch", trace.batch},
                  {"launches", trace.launches.size()},
                  {"tensors", trace.tensors.size()},
                  {"sequence", trace.sequence},
                  {"iterations", trace.steps.size()},
                  {"warm_up", findings.warm_up},
                  {"unknown_durations", vitality.unknown_durations},
                  {"ideal_ns", vitality.ideal_ns()},
                  {"kinds", kinds},
                  {"persistent", {{"count", persistent.count}, {"bytes", persistent.bytes}}},
                  {"granule_bytes", vitality.granule_bytes},
                  {"peak_live_bytes", vitality.peak_live_bytes},
                  {"peak_live_launch", vitality.peak_live_launch},
                  {"working_set_bytes_max", vitality.working_set_bytes_max},
                  {"working_set_max_launch", vitality.working_set_max_launch},
                  {"inactive_periods",
                   {{"count", periods.count}, {"bytes", periods.bytes}, {"share_of_byte_time", idle_share(vitality)}}},
                  {"machine", to_json(machine)},
                  {"fits", findings.kept.outcome == Bound::Outcome::kFits},
                  {"must_leave_bytes", findings.kept.must_leave_bytes},
                  {"must_leave_host_bytes", findings.kept.must_leave_host_bytes},
                  {"bound",
                   {{"clean_copies_kept", bound_json(findings, findings.kept)},
                    {"every_absence_written", bound_json(findings, findings.written)}}}};
  return json_text(json);
}

}  // namespace ebb::cli
