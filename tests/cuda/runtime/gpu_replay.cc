// Replays an iteration's trace on a runtime over a timed device, as PyTorch would: what a step takes, and what the
// runtime costs the host. No GPU is needed; the numbers say where time goes, not what a GPU gives.
//
//   gpu_replay TRACE DEVICE_MEMORY HOST_MEMORY [POLICY [BLOCK [STEPS [COMPUTE_SECONDS [CHANGED]]]]]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "timed_runtime.h"
#include "trace/reader.h"

namespace ebb {
namespace {

constexpr std::uint64_t kProgramNs = 6'000;  // of the program's own, from one launch to the next

struct Replay {
  const Trace& trace;
  GpuRuntime& runtime;
  TimedDevice& device;
  double factor = 1;  // of the trace's times
  std::uint64_t stream = 0;
  std::vector<void*> at = {};
  std::vector<std::vector<Trace::TensorIndex>> born = {}, dies = {};

  void prepare() {
    at.assign(trace.tensors.size(), nullptr);
    born.resize(trace.launches.size());
    dies.resize(trace.launches.size());
    std::vector<Trace::LaunchIndex> first(trace.tensors.size(), Trace::kNone), last(trace.tensors.size(), 0);
    for (std::uint32_t i = 0; i < trace.launches.size(); ++i) {
      for (const Trace::TensorIndex t : trace.touched(trace.launches[i])) {
        first[t] = std::min(first[t], i);
        last[t] = i;
      }
    }
    for (std::uint32_t t = 0; t < trace.tensors.size(); ++t) {
      if (trace.tensors[t].persistent || first[t] == Trace::kNone) continue;
      born[first[t]].push_back(t);
      const Trace::LaunchIndex freed = trace.tensors[t].freed_before;
      dies[freed == Trace::kNone || freed == 0 ? last[t] : std::max<Trace::LaunchIndex>(last[t], freed - 1)].push_back(
          t);
    }
    for (std::uint32_t t = 0; t < trace.tensors.size(); ++t) {
      if (trace.tensors[t].persistent) make(t);
    }
  }

  void make(Trace::TensorIndex t) {
    at[t] = runtime.allocate_on(&stream, trace.tensors[t].bytes);
    const void* const made[] = {at[t]};
    runtime.unpin_on(&stream, made);
  }

  void step() {
    std::vector<Access> accesses;
    std::vector<const void*> made;
    for (std::uint32_t i = 0; i < trace.launches.size(); ++i) {
      const Trace::Launch& launch = trace.launches[i];
      for (const std::uint64_t until = monotonic_ns() + kProgramNs; monotonic_ns() < until;) {
      }
      accesses.clear();
      made.clear();
      for (const Trace::TensorIndex t : trace.touched(launch)) {
        if (at[t] != nullptr) accesses.push_back({at[t], trace.tensors[t].bytes, at[t]});
      }
      const std::uint64_t ticket = runtime.announce_on(&stream, launch.op + 1, accesses);
      for (const Trace::TensorIndex t : born[i]) {
        at[t] = runtime.allocate_on(&stream, trace.tensors[t].bytes);
        made.push_back(at[t]);
      }
      device.run(&stream, static_cast<std::uint64_t>(static_cast<double>(launch.ns) * factor));
      runtime.retire(ticket);
      if (!made.empty()) runtime.unpin_on(&stream, made);
      for (const Trace::TensorIndex t : dies[i]) {
        runtime.deallocate_on(at[t], &stream);
        at[t] = nullptr;
      }
    }
    while (stream > monotonic_ns()) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
};

int replay(int argc, char** argv) {
  const Trace trace = read_trace(argv[1]);
  Options options;
  options.device_memory = parse_size(argv[2]);
  options.memory = parse_size(argv[3]);
  options.policy = argc > 4 ? argv[4] : "foresight";
  options.block_bytes = argc > 5 ? parse_size(argv[5]) : 2 * kMiB;
  const int steps = argc > 6 ? std::atoi(argv[6]) : 6;
  TimedDevice::Costs costs;
  if (argc > 8) costs.changed = std::atof(argv[8]);
  const TimedRuntime opened = open_timed_runtime(options, costs);
  GpuRuntime& runtime = *opened.runtime;
  TimedDevice& timed = *opened.device;

  std::uint64_t compute = 0;
  for (const Trace::Launch& launch : trace.launches) compute += launch.ns;
  const double seconds = argc > 7 ? std::atof(argv[7]) : static_cast<double>(compute) * 1e-9;
  Replay program{trace, runtime, timed, seconds * 1e9 / static_cast<double>(compute)};
  program.prepare();
  std::printf("%zu launches, %zu tensors, %.3f s of kernels\n", trace.launches.size(), trace.tensors.size(), seconds);
  for (int i = 0; i < steps; ++i) {
    const TimedDevice::Calls before = timed.calls();
    const Stats stats = runtime.stats();
    const std::uint64_t start = monotonic_ns();
    program.step();
    const std::uint64_t took = monotonic_ns() - start;
    runtime.step();
    const TimedDevice::Calls now = timed.calls();
    const Stats after = runtime.stats();
    std::printf(
        "step %d: %.3f s; mapped %lu, unmapped %lu, created %lu, recorded %lu, queried %lu, driver %.3f s; in %.2f "
        "GiB, out %.2f "
        "GiB: %lu blocks, %lu noted, %lu if changed; waits %lu, %.3f s; the device waited %.3f s for the host, %.3f s "
        "for "
        "copies\n",
        i, static_cast<double>(took) * 1e-9, now.mapped - before.mapped, now.unmapped - before.unmapped,
        now.created - before.created, now.recorded - before.recorded, now.queried - before.queried,
        static_cast<double>(now.host_ns - before.host_ns) * 1e-9,
        static_cast<double>(after.fetched_bytes - stats.fetched_bytes) / static_cast<double>(kGiB),
        static_cast<double>(after.evicted_bytes - stats.evicted_bytes) / static_cast<double>(kGiB),
        now.copied_out - before.copied_out, now.noted - before.noted, now.copied_changed - before.copied_changed,
        after.device_waits - stats.device_waits,
        static_cast<double>(after.device_wait_ns - stats.device_wait_ns) * 1e-9,
        static_cast<double>(now.late_ns - before.late_ns) * 1e-9,
        static_cast<double>(now.ordered_ns - before.ordered_ns) * 1e-9);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace ebb

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(
        stderr,
        "usage: gpu_replay TRACE DEVICE_MEMORY HOST_MEMORY [POLICY [BLOCK [STEPS [COMPUTE_SECONDS [CHANGED]]]]]\n");
    return 2;
  }
  try {
    return ebb::replay(argc, argv);
  } catch (const ebb::Error& error) {
    std::fprintf(stderr, "gpu_replay: %s\n", error.what());
    return 1;
  }
}
