// See trace_command.h.
#include "trace/trace_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "drivers/linux/system/system_files.h"
#include "ebb/status.h"
#include "ebb/units.h"
#include "json_text.h"
#include "run/summary.h"
#include "text.h"
#include "trace/import.h"
#include "trace/summary.h"
#include "trace/trace_chrome.h"
#include "trace/writer.h"

namespace ebb::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kChromeSuffix = ".json";

// The name decides what is written, so a name that says nothing is most likely a mistake.
void check_target(const std::string& to) {
  const std::string_view name(to);
  for (const char* suffix : {".jsonl", ".jsonl.gz", ".jsonl.zst", kChromeSuffix}) {
    if (name.ends_with(suffix)) return;
  }
  std::error_code ignored;
  const bool special = std::filesystem::exists(to, ignored) && !std::filesystem::is_regular_file(to, ignored);
  if (to == "-" || (special && !std::filesystem::is_directory(to, ignored))) return;
  throw Error(
      Status::kInvalid,
      fmt::format("--to {}: name it FILE.jsonl, FILE.jsonl.gz or FILE.jsonl.zst, FILE.json for Perfetto, or '-' for "
                  "stdout",
                  to));
}

// Headers come from files: control characters must not reach a terminal.
std::string printable(const std::string& text) {
  std::string result;
  for (const char c : text) result += static_cast<unsigned char>(c) < ' ' || c == '\x7f' ? '?' : c;
  return result;
}

std::string line(const char* title, const std::string& value) { return fmt::format("{:<12} {}\n", title, value); }

std::string count_and_bytes(const Summary::Kind& kind) {
  return fmt::format("{:>8}  {:>10}", kind.tensors, format_size(kind.bytes));
}

std::string table_of(const Import& import, const Summary& summary) {
  constexpr double kSecondsPerNs = 1e-9;
  const Trace& trace = import.trace;
  std::string text;
  if (!trace.model.empty()) text += line("model", printable(trace.model));
  if (trace.batch != 0) text += line("batch", std::to_string(trace.batch));
  if (!trace.device.empty()) text += line("device", printable(trace.device));
  if (!trace.source.empty()) text += line("source", printable(trace.source));
  text += line("launches", fmt::format("{} of {} operators, {} iterations {}", trace.launches.size(), trace.ops.size(),
                                       trace.steps.size(), trace.sequence ? "in a row" : "marked"));
  std::string time =
      summary.timed_launches == 0 ? "unknown" : format_seconds(static_cast<double>(summary.total_ns) * kSecondsPerNs);
  if (summary.timed_launches != 0 && summary.timed_launches != trace.launches.size()) {
    time += fmt::format(" for the {} launches that say", summary.timed_launches);
  }
  text += line("time", time);
  text += line("peak", fmt::format("{} alive at launch {}", format_size(summary.peak_bytes), summary.peak_launch));
  text += fmt::format("\n{:<12} {:>8}  {:>10}\n", "kind", "tensors", "bytes");
  for (std::uint8_t k = 0; k < kTraceKinds; ++k) {
    if (summary.kinds[k].tensors > 0)
      text += line(name(static_cast<Trace::Kind>(k)), count_and_bytes(summary.kinds[k]));
  }
  text += line("all", count_and_bytes(summary.all));
  text += line("persistent", count_and_bytes(summary.persistent));
  if (!import.notes.empty()) text += "\n";
  for (const std::string& note : import.notes) text += fmt::format("note: {}\n", note);
  return text;
}

std::string json_of(const Import& import, const Summary& summary) {
  const Trace& trace = import.trace;
  const auto kind_json = [](const Summary::Kind& kind) {
    return Json{{"tensors", kind.tensors}, {"bytes", kind.bytes}};
  };
  Json kinds = Json::object();
  for (std::uint8_t k = 0; k < kTraceKinds; ++k) kinds[name(static_cast<Trace::Kind>(k))] = kind_json(summary.kinds[k]);
  const Json json{{"model", trace.model},
                  {"batch", trace.batch},
                  {"device", trace.device},
                  {"source", trace.source},
                  {"launches", trace.launches.size()},
                  {"operators", trace.ops.size()},
                  {"iterations", trace.steps.size()},
                  {"sequence", trace.sequence},
                  {"timed_launches", summary.timed_launches},
                  {"total_ns", summary.total_ns},
                  {"peak_bytes", summary.peak_bytes},
                  {"peak_launch", summary.peak_launch},
                  {"kinds", std::move(kinds)},
                  {"all", kind_json(summary.all)},
                  {"persistent", kind_json(summary.persistent)},
                  {"notes", import.notes}};
  return json_text(json);
}

}  // namespace

int show_trace(const TraceArguments& arguments) {
  if (!arguments.to.empty()) check_target(arguments.to);
  const Import import = import_trace(arguments.file);
  if (arguments.to.ends_with(kChromeSuffix)) {
    SummaryFile(arguments.to, "trace", "--to").write(chrome_events(import.trace));
  } else if (!arguments.to.empty()) {
    write_trace(import.trace, arguments.to);
  }
  const Summary summary = summarize(import.trace);
  const std::string text = arguments.json ? json_of(import, summary) : table_of(import, summary);
  // With the trace on stdout, what is for people goes beside it.
  const int where = arguments.to == "-" ? STDERR_FILENO : STDOUT_FILENO;
  if (!write_all(where, text)) throw Error(Status::kIoError, "the summary cannot be written");
  return 0;
}

}  // namespace ebb::cli
