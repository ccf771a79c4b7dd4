// See plan_command.h.
#include "plan/plan_command.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "bound/lower_bound.h"
#include "drivers/linux/system/system_files.h"
#include "ebb/status.h"
#include "parallel.h"
#include "plan/plan_report.h"
#include "plan/pressure_plot.h"
#include "text.h"
#include "trace/reader.h"
#include "warm_up.h"

namespace ebb::cli {
namespace {

constexpr int kColumnsDefault = 80;

int terminal_columns(int fd) {
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return kColumnsDefault;
}

std::string title_of(const Trace& trace) {
  return fmt::format("{}{}", trace.model.empty() ? "trace" : trace.model,
                     trace.batch > 0 ? fmt::format(", batch {}", trace.batch) : "");
}

void write_page(const std::string& file, const std::string& page) {
  std::ofstream stream(file, std::ios::binary);
  stream << page;
  stream.close();
  if (!stream) throw Error(Status::kInvalid, fmt::format("--html: cannot write {}: {}", file, std::strerror(errno)));
}

}  // namespace

int plan_trace(const PlanArguments& arguments) {
  const Trace trace = read_trace(arguments.trace);
  const Machine machine = machine_of(arguments.machine, trace.origin);
  const std::uint32_t warm_up = warm_up_of(arguments.warm_up, trace);
  const Vitality vitality = counted_vitality(trace, 0);
  const Vitality counted = warm_up > 0 ? counted_vitality(trace, warm_up) : vitality;
  PlanFindings findings{trace, vitality, counted, machine, warm_up, {}, {}};
  run_in_parallel({[&] { findings.written = lower_bound(counted, machine, {.copies = Copies::kWritten}); },
                   [&] {
                     const Vitality kept = counted_vitality(trace, warm_up, Dead::kStays);
                     findings.kept = lower_bound(kept, machine, {.copies = Copies::kKeptClean});
                   }},
                  [](std::size_t) {});
  if (!arguments.html.empty()) {
    write_page(arguments.html, draw_pressure_html(vitality, machine.device_bytes, title_of(trace)));
  }
  if (arguments.json) {
    write_all(STDOUT_FILENO, to_json(findings));
    return 0;
  }
  std::string out = describe_memory(findings) + "\n";
  if (!trace.launches.empty()) {
    out +=
        draw_pressure(vitality, {machine.device_bytes, terminal_columns(STDOUT_FILENO), wants_colour(STDOUT_FILENO)});
  }
  write_all(STDOUT_FILENO, out + describe_bounds(findings));
  return 0;
}

}  // namespace ebb::cli
