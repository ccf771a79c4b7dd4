// See whatif_report.h.
#include "plan/whatif_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "ebb/units.h"
#include "plan/plan_report.h"
#include "text.h"

namespace ebb::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string gigabytes(std::uint64_t bytes) {
  return bytes == 0 ? "-" : fmt::format("{:.2f}", static_cast<double>(bytes) / 1e9);
}

std::uint64_t number(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_number_integer() ? found->get<std::uint64_t>() : 0;
}

std::uint64_t persistent_bytes(const Trace& trace) {
  std::uint64_t bytes = 0;
  for (const Trace::Tensor& tensor : trace.tensors) bytes += tensor.persistent ? tensor.bytes : 0;
  return bytes;
}

// The lane that would have to be faster first: the one that is busy longest. Programs without transfers wait for none.
const char* binding(const WhatIfRow& row) {
  if (row.flash_ns > std::max({row.compute_ns, row.read_ns, row.write_ns})) return "flash";
  if (row.read_ns > row.compute_ns && row.read_ns >= row.write_ns) return "flash_read";
  return row.write_ns > row.compute_ns ? "flash_write" : "compute";
}

// What is repeated: a step of training, a token, a call of the model; else all of the program.
std::string what(const WhatIfFindings& findings) { return findings.program.value("what", "step"); }

bool fits(const WhatIfFindings& findings) {
  return findings.ranks * findings.vitality.peak_live_bytes <= findings.available_bytes;
}

std::string title(const WhatIfFindings& findings) {
  const Json& program = findings.program;
  const std::string name = findings.trace.model.empty() ? "the program" : findings.trace.model;
  const bool whole = what(findings) == "program";
  const bool steady = program.value("steady", false);
  std::string found = whole ? "the whole program" : fmt::format("{} {}", what(findings), number(program, "steps"));
  return fmt::format(
      "{}: {} launches in {}{}; followed without memory or compute in {:.1f} s\n", name, findings.trace.launches.size(),
      found, steady || whole ? "" : ", the only one, so what it sets up counts too", program.value("seconds", 0.0));
}

std::string memory_part(const WhatIfFindings& findings) {
  const Vitality& vitality = findings.vitality;
  std::string out;
  const auto row = [&out](std::string_view label, const std::string& value) {
    out += fmt::format("  {:<22}{}\n", label, value);
  };
  const Json bytes = findings.program.value("bytes", Json::object());
  for (const char* kind : {"weight", "gradient", "optimizer"}) {
    if (number(bytes, kind) > 0) row(kind, format_size(number(bytes, kind)));
  }
  if (number(findings.program, "mapped_bytes") > 0) {
    row("mapped from files", format_size(number(findings.program, "mapped_bytes")));
  }
  row("kept between steps", format_size(persistent_bytes(findings.trace)));
  row("peak", fmt::format("{} at {}", format_size(vitality.peak_live_bytes),
                          launch_text(findings.trace, vitality.peak_live_launch)));
  row("largest launch", fmt::format("{}, {}", format_size(vitality.working_set_bytes_max),
                                    launch_text(findings.trace, vitality.working_set_max_launch)));
  if (findings.ranks > 1) {
    row("ranks",
        fmt::format("{} on this machine, of {}: each has this, and a part of the disk; a budget is for all here",
                    findings.ranks, number(findings.program, "ranks")));
  }
  row("this machine", fmt::format("{} available: the tensors {}", format_size(findings.available_bytes),
                                  fits(findings) ? "fit" : "do not fit"));
  return out;
}

std::string row_text(const WhatIfRow& row, std::uint64_t stock_ns, bool colour) {
  std::string out = fmt::format("  {:<11}{:<6}", format_size(row.memory_bytes), row.label);
  if (!row.problem.empty()) return out + row.problem + "\n";
  const double ratio = stock_ns > 0 ? static_cast<double>(row.step_ns) / static_cast<double>(stock_ns) : 0;
  const std::string bound = binding(row);
  const bool free = colour && bound == "compute";
  out +=
      fmt::format("{:>9}{:>9}{:>11}{:>11}   {}{}{}\n", format_nanoseconds(row.step_ns), fmt::format("x{:.2f}", ratio),
                  gigabytes(row.read_bytes), gigabytes(row.write_bytes), free ? "\033[32m" : "",
                  bound == "flash"         ? "flash"
                  : bound == "flash_read"  ? "flash reads"
                  : bound == "flash_write" ? "flash writes"
                                           : "compute",
                  free ? "\033[0m" : "");
  return out;
}

}  // namespace

std::string to_table(const WhatIfFindings& findings, bool colour) {
  const std::uint64_t stock_ns = number(findings.program, "stock_ns");
  std::string out = title(findings) + memory_part(findings);
  out += fmt::format("\npredicted: a {} takes {} in PyTorch alone with memory enough; under `ebb run`:\n",
                     what(findings), format_nanoseconds(stock_ns));
  out += fmt::format("{}  {:<17}{:>9}{:>9}{:>11}{:>11}   {}{}\n", colour ? "\033[1m" : "", "memory", what(findings),
                     "of alone", "GB read", "GB written", "bound by", colour ? "\033[0m" : "");
  for (const WhatIfRow& row : findings.rows) out += row_text(row, stock_ns, colour);
  const Json calibration = findings.program.value("calibration", Json::object());
  const Machine& machine = findings.machine;
  out += fmt::format("\nflash: reads {:.2f} GB/s, writes {:.2f} GB/s", machine.flash_read_bps / 1e9,
                     machine.flash_write_bps / 1e9);
  if (machine.flash_total_bps > 0) out += fmt::format(", both together {:.2f} GB/s", machine.flash_total_bps / 1e9);
  if (machine.busy_read_bps > 0)
    out += fmt::format("; while kernels run, reads {:.2f} GB/s", machine.busy_read_bps / 1e9);
  out += fmt::format(" ({})\n", findings.flash_source);
  out += fmt::format("kernels: {}, measured {}\n", calibration.value("key", "?"), calibration.value("measured", "?"));
  const Json notes = findings.program.value("notes", Json::object());
  for (const auto& [text, count] : notes.items()) {
    out += fmt::format("note: {} ({} times)\n", text, count.dump());
  }
  return out;
}

Json to_json(const WhatIfFindings& findings) {
  const Vitality& vitality = findings.vitality;
  Json rows = Json::array();
  for (const WhatIfRow& row : findings.rows) {
    Json json{{"memory_bytes", row.memory_bytes}, {"share", row.label.empty() ? Json(nullptr) : Json(row.label)}};
    if (row.problem.empty()) {
      json.update({{"step_ns", row.step_ns},
                   {"compute_ns", row.compute_ns},
                   {"flash_read_ns", row.read_ns},
                   {"flash_write_ns", row.write_ns},
                   {"flash_read_bytes", row.read_bytes},
                   {"flash_write_bytes", row.write_bytes},
                   {"bound_by", binding(row)}});
    } else {
      json["problem"] = row.problem;
    }
    rows.push_back(std::move(json));
  }
  return {{"model", findings.trace.model},
          {"program", findings.program},
          {"launches", findings.trace.launches.size()},
          {"peak_bytes", vitality.peak_live_bytes},
          {"peak_launch", vitality.peak_live_launch},
          {"persistent_bytes", persistent_bytes(findings.trace)},
          {"largest_launch_bytes", vitality.working_set_bytes_max},
          {"available_bytes", findings.available_bytes},
          {"fits", fits(findings)},
          {"ranks_here", findings.ranks},
          {"stock_ns", number(findings.program, "stock_ns")},
          {"flash_read_bps", findings.machine.flash_read_bps},
          {"flash_write_bps", findings.machine.flash_write_bps},
          {"flash_total_bps", findings.machine.flash_total_bps},
          {"budgets", rows}};
}

}  // namespace ebb::cli
