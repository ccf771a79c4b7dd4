// See activity.h.
#include "top/activity.h"

#include <algorithm>

namespace ebb::cli {
namespace {

const ProcessReading* find(const Readings& readings, pid_t run, pid_t pid) {
  for (const RunReading& each : readings.runs) {
    if (each.facts.pid != run) continue;
    for (const ProcessReading& process : each.processes) {
      if (process.pid == pid) return &process;
    }
  }
  return nullptr;
}

double growth(std::uint64_t before, std::uint64_t now) { return now > before ? static_cast<double>(now - before) : 0; }

Rates rates_between(const StatsReading& before, const StatsReading& now, double seconds) {
  Rates rates;
  rates.fetch_bps = growth(before.stats.fetched_bytes, now.stats.fetched_bytes) / seconds;
  rates.evict_bps = growth(before.stats.evicted_bytes, now.stats.evicted_bytes) / seconds;
  rates.stalled = std::min(1.0, growth(before.stats.stall_ns, now.stats.stall_ns) / 1e9 / seconds);
  for (std::size_t i = 0; i < kWaitCauses; ++i) {
    rates.causes[i] = std::min(1.0, growth(before.waits.cause_ns[i], now.waits.cause_ns[i]) / 1e9 / seconds);
  }
  return rates;
}

void add(RunActivity& run, const ProcessActivity& process) {
  const Stats& stats = process.process->reading.stats;
  run.resident_bytes += stats.resident_bytes;
  run.flash_bytes += stats.flash_bytes;
  run.rates.fetch_bps += process.rates.fetch_bps;
  run.rates.evict_bps += process.rates.evict_bps;
  if (process.rates.stalled > run.rates.stalled) {
    run.rates.stalled = process.rates.stalled;
    run.rates.causes = process.rates.causes;
  }
}

}  // namespace

Activity activity_between(const Readings& before, const Readings& now) {
  Activity activity;
  activity.seconds = std::max(0.0, std::chrono::duration<double>(now.when - before.when).count());
  for (const RunReading& run : now.runs) {
    RunActivity& sums = activity.runs.emplace_back();
    sums.run = &run;
    for (const ProcessReading& process : run.processes) {
      ProcessActivity each{&process, run.facts.pid, {}};
      const ProcessReading* const earlier = find(before, run.facts.pid, process.pid);
      if (earlier != nullptr && activity.seconds > 0) {
        each.rates = rates_between(earlier->reading, process.reading, activity.seconds);
      }
      add(sums, each);
      sums.processes.push_back(each);
    }
  }
  return activity;
}

}  // namespace ebb::cli
