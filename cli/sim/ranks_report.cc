// See ranks_report.h.
#include "sim/ranks_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ebb/units.h"
#include "json_text.h"
#include "machine_options.h"
#include "text.h"

namespace ebb::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string seconds_or_none(std::uint64_t ns) { return ns == 0 ? "-" : format_nanoseconds(ns); }

// What is busy longest.
const char* binds(const RanksRow& row) {
  const std::uint64_t most = std::max({row.compute_ns, row.drive_ns, row.network_ns});
  if (most == row.compute_ns) return "compute";
  return most == row.drive_ns ? "drive" : "network";
}

// Of the speed that each rank has alone.
double of_alone(const RanksFindings& findings, const RanksRow& row) {
  return static_cast<double>(findings.alone.step_ns) / static_cast<double>(std::max<std::uint64_t>(row.step_ns, 1));
}

// From how many ranks of those asked for it binds, and at all more; nullptr: at none.
const RanksRow* binds_from(const RanksFindings& findings, std::string_view what) {
  const RanksRow* first = nullptr;
  for (const RanksRow& row : findings.rows) {
    const bool does = binds(row) == what;
    if (!does) first = nullptr;
    if (does && first == nullptr) first = &row;
  }
  return first;
}

std::string conclusion(const RanksFindings& findings) {
  std::string text;
  for (const char* const what : {"drive", "network"}) {
    if (const RanksRow* const row = binds_from(findings, what)) {
      text += fmt::format("from {} rank{} on the {} binds\n", row->ranks, row->ranks == 1 ? "" : "s", what);
    }
  }
  return text.empty() ? "neither drive nor network binds at the largest number of ranks\n" : text;
}

}  // namespace

std::string to_table(const RanksFindings& findings, bool colour) {
  const Trace& trace = findings.trace;
  std::string out = fmt::format("{}: {} launches, {} of kernels, {} of gradients\n",
                                trace.model.empty() ? "trace" : trace.model, trace.launches.size(),
                                seconds_or_none(findings.alone.compute_ns), format_size(findings.gradient_bytes));
  out += fmt::format("each rank: {}; {}\n", describe(findings.machine), findings.policy);
  out += fmt::format("up to {} rank{} on a drive, in equal parts; a ring of {:.4g} GB/s and {:.4g} us, buckets of {}\n",
                     findings.per_drive, findings.per_drive == 1 ? "" : "s", findings.ring.bps / 1e9,
                     static_cast<double>(findings.ring.latency_ns) / 1e3, format_size(findings.ring.bucket_bytes));
  if (findings.gradient_bytes == 0) out += "the trace names no gradients that are read: nothing is exchanged\n";
  out += "\n";
  out += colour ? "\033[1m" : "";
  out += fmt::format("{:>6}{:>10}{:>11}{:>11}{:>11}{:>11}{:>11}{:>11}  {}", "ranks", "a drive", "step", "of alone",
                     "compute", "drive", "network", "waited", "bound by");
  out += colour ? "\033[0m\n" : "\n";
  for (const RanksRow& row : findings.rows) {
    out += fmt::format("{:>6}{:>10}{:>11}{:>11}{:>11}{:>11}{:>11}{:>11}  {}\n", row.ranks, row.sharing,
                       seconds_or_none(row.step_ns), fmt::format("{:.1f} %", 100 * of_alone(findings, row)),
                       seconds_or_none(row.compute_ns), seconds_or_none(row.drive_ns), seconds_or_none(row.network_ns),
                       seconds_or_none(row.waited_ns), binds(row));
  }
  return out + "\n" + conclusion(findings);
}

std::string to_json(const RanksFindings& findings) {
  Json rows = Json::array();
  for (const RanksRow& row : findings.rows) {
    rows.push_back({{"ranks", row.ranks},
                    {"sharing_drive", row.sharing},
                    {"step_ns", row.step_ns},
                    {"of_alone", of_alone(findings, row)},
                    {"compute_ns", row.compute_ns},
                    {"drive_ns", row.drive_ns},
                    {"network_ns", row.network_ns},
                    {"network_waited_ns", row.waited_ns},
                    {"bound_by", binds(row)}});
  }
  const auto from = [&](const char* what) {
    const RanksRow* const row = binds_from(findings, what);
    return row == nullptr ? Json(nullptr) : Json(row->ranks);
  };
  const Json json{{"trace", findings.file},
                  {"model", findings.trace.model},
                  {"policy", findings.policy},
                  {"machine", to_json(findings.machine)},
                  {"ranks_per_drive", findings.per_drive},
                  {"network_bps", findings.ring.bps},
                  {"network_latency_ns", findings.ring.latency_ns},
                  {"bucket_bytes", findings.ring.bucket_bytes},
                  {"gradient_bytes", findings.gradient_bytes},
                  {"alone_step_ns", findings.alone.step_ns},
                  {"drive_binds_from", from("drive")},
                  {"network_binds_from", from("network")},
                  {"rows", rows}};
  return json_text(json);
}

}  // namespace ebb::cli
