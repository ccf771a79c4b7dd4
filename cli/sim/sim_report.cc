// See sim_report.h.
#include "sim/sim_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "ebb/units.h"
#include "json_text.h"
#include "machine_options.h"
#include "warm_up.h"

namespace ebb::cli {
namespace {

using Json = nlohmann::ordered_json;
using Iteration = TraceSimulator::Iteration;
using Cause = TraceSimulator::Cause;

constexpr double kCloseToBound = 0.98;
constexpr std::array<const char*, TraceSimulator::kCauses> kCauseKeys{"fault_ns", "fetch_ns", "late_ns", "no_frame_ns",
                                                                      "host_ns"};
constexpr std::array<const char*, kLanes> kLaneKeys{"host_out", "flash_out", "host_in", "flash_in"};
constexpr std::array<Lane, kLanes> kLaneOrder{Lane::kHostOut, Lane::kHostIn, Lane::kFlashOut, Lane::kFlashIn};

double ratio(std::uint64_t part, std::uint64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 1;
}

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

// What is reported of a policy: the last iteration, or the sum of those of a sequence that count.
Iteration counted(const SimFindings& findings, const SimResult& result) {
  if (!findings.trace.sequence) return result.iterations.back();
  Iteration sum;
  for (std::size_t i = findings.warm_up; i < result.iterations.size(); ++i) sum += result.iterations[i];
  return sum;
}

std::uint64_t iterations_counted(const SimFindings& findings) { return findings.options.iterations - findings.warm_up; }

// Before the last: of a loop the first iteration, of a sequence the mean of those that count.
std::uint64_t beside_ns(const SimFindings& findings, const SimResult& result) {
  if (!findings.trace.sequence) return result.iterations.front().ns;
  return counted(findings, result).ns / iterations_counted(findings);
}

std::string title(const SimFindings& findings) {
  const Trace& trace = findings.trace;
  return fmt::format("{}{}: {} launches, {} of kernels", trace.model.empty() ? "trace" : trace.model,
                     trace.batch > 0 ? fmt::format(", batch {}", trace.batch) : "", trace.launches.size(),
                     format_nanoseconds(counted(findings, findings.results.front()).ideal_ns));
}

std::string row(const SimFindings& findings, const SimResult& result, bool bounded, bool colour) {
  const Iteration found = counted(findings, result);
  const double of_bound = bounded ? ratio(findings.bound.total_ns(), found.ns) : 0;
  const bool close = colour && bounded && of_bound >= kCloseToBound;
  std::string out = fmt::format("{:<12}{:>9}{:>9}{:>9}", result.policy, format_nanoseconds(beside_ns(findings, result)),
                                format_nanoseconds(found.ns), percent(ratio(found.ideal_ns, found.ns)));
  out += fmt::format("{}{:>9}{}", close ? "\033[32m" : "", bounded ? percent(of_bound) : "-", close ? "\033[0m" : "");
  for (const std::uint64_t ns : found.stall_ns) out += fmt::format("{:>9}", ns == 0 ? "-" : format_nanoseconds(ns));
  for (const Lane lane : kLaneOrder) {
    const std::uint64_t bytes = found.lanes[static_cast<std::size_t>(lane)].bytes;
    out += fmt::format("{:>9}", bytes == 0 ? "-" : fmt::format("{:.1f}", static_cast<double>(bytes) / 1e9));
  }
  return out + "\n";
}

Json lanes_json(const Iteration& iteration) {
  Json json = Json::object();
  for (const Lane lane : kLaneOrder) {
    const LaneQueue::LaneUse& use = iteration.lanes[static_cast<std::size_t>(lane)];
    json[kLaneKeys[static_cast<std::size_t>(lane)]] = {{"bytes", use.bytes}, {"busy_ns", use.busy_ns}};
  }
  return json;
}

Json result_json(const SimFindings& findings, const SimResult& result) {
  const Iteration found = counted(findings, result);
  Json stalls = Json::object();
  for (std::size_t i = 0; i < kCauseKeys.size(); ++i) stalls[kCauseKeys[i]] = found.stall_ns[i];
  Json times = Json::array();
  for (const Iteration& iteration : result.iterations) times.push_back(iteration.ns);
  const bool bounded = bound_note(findings).empty();
  Json json{{"policy", result.policy}};
  if (findings.trace.sequence) {
    json["total_ns"] = found.ns;
    json["mean_iteration_ns"] = beside_ns(findings, result);
  } else {
    json["first_iteration_ns"] = result.iterations.front().ns;
    json["iteration_ns"] = found.ns;
  }
  json.update({{"iterations_ns", times},
               {"ideal_ns", found.ideal_ns},
               {"bound_ns", bounded ? Json(findings.bound.total_ns()) : Json(nullptr)},
               {"bound_written_ns", bounded ? Json(findings.bound_written.total_ns()) : Json(nullptr)},
               {"lanes", lanes_json(found)},
               {"stalls", stalls},
               {"flash_bytes_written", found.lanes[static_cast<std::size_t>(Lane::kFlashOut)].bytes},
               {"faults", found.faults}});
  return json;
}

}  // namespace

bool is_artifact(const SimFindings& findings) { return findings.options.timing == TraceSimulator::Timing::kArtifact; }

std::string bound_note(const SimFindings& findings) {
  if (findings.no_bound) return "left out, as --no-bound says";
  if (is_artifact(findings)) return "artifact timing lets launches run while they wait, which no bound of ours allows";
  switch (findings.bound.outcome) {
    case Bound::Outcome::kStreams: return "a launch touches more than device memory holds, so the bound does not apply";
    case Bound::Outcome::kNoRoom: return "device, host and flash together are too small";
    case Bound::Outcome::kUnknown: return "the lower bound could not be computed";
    case Bound::Outcome::kFits:
    case Bound::Outcome::kBounded: break;
  }
  return "";
}

std::string to_table(const SimFindings& findings, bool colour) {
  const std::string note = bound_note(findings);
  std::string out = title(findings) + "\nmachine: " + describe(findings.options.machine) + "\n";
  const bool sequence = findings.trace.sequence;
  out += fmt::format("{} timing, blocks of {}, {}", is_artifact(findings) ? "artifact" : "strict",
                     format_size(findings.options.block_bytes),
                     sequence ? counted_iterations(findings.trace, findings.warm_up) + " count"
                              : fmt::format("steady is iteration {}", findings.options.iterations));
  if (findings.vary > 0) out += fmt::format(", times vary by {:.0f} %, seed {}", 100 * findings.vary, findings.seed);
  out += note.empty() ? fmt::format("\nno schedule is faster than {}, or {} if it writes all that leaves\n\n",
                                    format_nanoseconds(findings.bound.total_ns()),
                                    format_nanoseconds(findings.bound_written.total_ns()))
                      : fmt::format("\nno bound: {}\n\n", note);
  out += fmt::format("{:<39}{:^45}  {:^34}\n", "", "waits for", "GB moved");
  out += colour ? "\033[1m" : "";
  out += fmt::format("{:<12}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}", "policy",
                     sequence ? "each" : "first", sequence ? "total" : "steady", "of ideal", "of bound", "fault",
                     "fetch", "late", "frame", "host", "host out", "host in", "fl. out", "fl. in");
  out += colour ? "\033[0m\n" : "\n";
  for (const SimResult& result : findings.results) out += row(findings, result, note.empty(), colour);
  return out;
}

std::string to_json(const SimFindings& findings) {
  const Machine& machine = findings.options.machine;
  Json results = Json::array();
  for (const SimResult& result : findings.results) results.push_back(result_json(findings, result));
  const std::string note = bound_note(findings);
  const Json json{{"trace", findings.file},
                  {"model", findings.trace.model},
                  {"batch", findings.trace.batch},
                  {"machine", to_json(machine)},
                  {"timing", is_artifact(findings) ? "artifact" : "strict"},
                  {"block_bytes", findings.options.block_bytes},
                  {"sequence", findings.trace.sequence},
                  {"iterations", findings.options.iterations},
                  {"warm_up", findings.warm_up},
                  {"vary", findings.vary},
                  {"seed", findings.seed},
                  {"bound_note", note.empty() ? Json(nullptr) : Json(note)},
                  {"results", results}};
  return json_text(json);
}

}  // namespace ebb::cli
