// See ranks_command.h.
#include "sim/ranks_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "drivers/linux/system/system_files.h"
#include "ebb/status.h"
#include "ebb/units.h"
#include "numbers.h"
#include "parallel.h"
#include "rivals/policies.h"
#include "sim/ranks_report.h"
#include "sim/ring.h"
#include "text.h"

namespace ebb::cli {
namespace {

constexpr std::uint32_t kRanksMax = 1u << 20;
constexpr double kLatencyMaxUs = 1e6;

[[noreturn]] void refuse(const std::string& message) { throw Error(Status::kInvalid, message); }

std::vector<std::uint32_t> ranks_of(const std::string& text) {
  std::vector<std::uint32_t> ranks;
  for (const std::string& word : split(text, ',')) {
    const auto number = read_number(word, 1, kRanksMax);
    if (!number) refuse(fmt::format("--ranks: '{}' is not a number from 1 to {}", word, kRanksMax));
    ranks.push_back(*number);
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

Ring ring_of(const SimArguments& arguments) {
  Ring ring;
  try {
    ring.bps = static_cast<double>(parse_rate(arguments.network));
  } catch (const Error& error) {
    refuse(fmt::format("--network: {}", error.what()));
  }
  if (ring.bps <= 0) refuse("--network: must not be 0");
  if (!(arguments.latency_us >= 0 && arguments.latency_us <= kLatencyMaxUs)) {
    refuse(fmt::format("--latency: must be from 0 to {:.0f} microseconds", kLatencyMaxUs));
  }
  ring.latency_ns = static_cast<std::uint64_t>(std::llround(1e3 * arguments.latency_us));
  return ring;
}

void check(const SimArguments& arguments, const Trace& trace) {
  if (trace.sequence) refuse("--ranks: takes one iteration that repeats, and this is a sequence");
  if (arguments.vary != 0) refuse("--vary: not with --ranks, where all ranks are alike");
  if (arguments.timing != "strict") refuse("--timing: not with --ranks, which knows strict timing only");
}

std::uint64_t ns_for(std::uint64_t bytes, double bps) {
  return bps > 0 ? static_cast<std::uint64_t>(1e9 * static_cast<double>(bytes) / bps) : 0;
}

RanksRow run(const RingTrace& ring, std::uint32_t ranks, std::uint32_t sharing, const std::string& policy,
             TraceSimulator::Options options) {
  options.machine = with_part_of_flash(options.machine, sharing);
  const auto last = TraceSimulator(ring.trace, make_any_policy(policy), options).run().back();
  const std::uint64_t in = last.lanes[static_cast<std::size_t>(Lane::kFlashIn)].bytes;
  const std::uint64_t out = last.lanes[static_cast<std::size_t>(Lane::kFlashOut)].bytes;
  RanksRow row{ranks, sharing, last.ns, last.ideal_ns - ring.waited_ns, 0, ring.network_ns, ring.waited_ns};
  row.drive_ns = std::max({ns_for(in, options.machine.flash_read_bps), ns_for(out, options.machine.flash_write_bps),
                           ns_for(in + out, options.machine.flash_total_bps)});
  return row;
}

}  // namespace

int simulate_ranks(const SimArguments& arguments, const Trace& trace, const std::string& policy,
                   const TraceSimulator::Options& options) {
  check(arguments, trace);
  const std::vector<std::uint32_t> numbers = ranks_of(arguments.ranks);
  const auto per_drive = read_number(arguments.per_drive, 1, kRanksMax);
  if (!per_drive) refuse(fmt::format("--per-drive: '{}' is not a number from 1 to {}", arguments.per_drive, kRanksMax));
  RanksFindings findings{trace, arguments.trace, policy, options.machine, ring_of(arguments), *per_drive, 0, {}, {}};
  Ring two = findings.ring;
  two.ranks = 2;
  findings.gradient_bytes = with_all_reduces(trace, two).gradient_bytes;
  findings.rows.resize(numbers.size());
  std::vector<std::function<void()>> pieces;
  pieces.emplace_back([&] { findings.alone = run(with_all_reduces(trace, Ring{}), 1, 1, policy, options); });
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    pieces.emplace_back([&, i] {
      Ring ring = findings.ring;
      ring.ranks = numbers[i];
      const std::uint32_t sharing = std::min(ring.ranks, *per_drive);
      findings.rows[i] = run(with_all_reduces(trace, ring), ring.ranks, sharing, policy, options);
    });
  }
  ProgressLine progress(std::chrono::seconds(1));
  run_in_parallel(
      pieces, [&](std::size_t done) { progress.show(fmt::format("{} of {} numbers of ranks", done, pieces.size())); });
  progress.clear();
  write_all(STDOUT_FILENO, arguments.json ? to_json(findings) : to_table(findings, wants_colour(STDOUT_FILENO)));
  return 0;
}

}  // namespace ebb::cli
