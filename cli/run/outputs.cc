// See outputs.h.
#include "run/outputs.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "drivers/linux/system/system_files.h"
#include "ebb/status.h"
#include "json_text.h"
#include "run/report/report_data.h"
#include "run/report/report_page.h"
#include "run/report/trace_events.h"
#include "run/stats_reader.h"
#include "text.h"

namespace ebb::cli {
namespace {

void write(const std::optional<SummaryFile>& file, const std::string& text) {
  if (!file) return;
  try {
    file->write(text);
  } catch (const Error& error) {
    write_all(STDERR_FILENO, fmt::format("ebb: {}\n", error.what()));
  }
}

std::string events_text(const RunAccount& account) {
  std::unique_ptr<RunTimeline> timeline = read_timeline(account.page);
  if (timeline == nullptr) timeline = std::make_unique<RunTimeline>();
  return json_line(trace_events(account, *timeline)) + "\n";
}

}  // namespace

Outputs::Outputs(const RunArguments& arguments) {
  if (!arguments.summary.empty()) summary.emplace(arguments.summary, "summary", "--summary");
  if (!arguments.report.empty()) report.emplace(arguments.report, "report", "--report");
  if (!arguments.events.empty()) events.emplace(arguments.events, "trace event", "--trace-events");
}

void publish(const RunAccount& account, const RunArguments& arguments, const Outputs& outputs,
             const std::string& recording) {
  const std::string json = json_text(summary_json(account));
  write(outputs.summary, json);
  if (arguments.json) {
    if (!write_all(STDOUT_FILENO, json)) {
      write_all(STDERR_FILENO, fmt::format("ebb: the summary cannot be written to stdout: {}\n", std::strerror(errno)));
    }
  } else if (!arguments.quiet) {
    write_all(STDERR_FILENO, summary_table(account, wants_colour(STDERR_FILENO)));
  }
  if (outputs.events) write(outputs.events, events_text(account));
  if (outputs.report) {
    write(outputs.report, report_file(arguments.report, report_json(account, account.page, recording)));
  }
}

}  // namespace ebb::cli
