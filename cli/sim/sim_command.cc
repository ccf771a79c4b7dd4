// See sim_command.h.
#include "sim/sim_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "base/rng.h"
#include "drivers/linux/system/system_files.h"
#include "ebb/options.h"
#include "ebb/status.h"
#include "ebb/units.h"
#include "numbers.h"
#include "parallel.h"
#include "rivals/policies.h"
#include "sim/ranks_command.h"
#include "sim/sim_report.h"
#include "text.h"
#include "trace/reader.h"
#include "warm_up.h"

namespace ebb::cli {
namespace {

constexpr std::uint64_t kBlockMin = 64 * kKiB;
constexpr std::uint64_t kBlockMax = kGiB;
constexpr std::uint32_t kIterations = 5;
constexpr std::uint32_t kIterationsMax = 1000;

std::string known_names() {
  std::string names;
  for (const std::string_view name : all_policy_names()) names += fmt::format("{}{}", names.empty() ? "" : ", ", name);
  return names;
}

std::vector<std::string> policies_of(const std::string& text) {
  std::vector<std::string> names;
  std::size_t start = 0;
  while (start <= text.size()) {
    const std::size_t end = std::min(text.find(',', start), text.size());
    const std::string name = text.substr(start, end - start);
    start = end + 1;
    if (name == "all") {
      names.insert(names.end(), all_policy_names().begin(), all_policy_names().end());
      continue;
    }
    if (make_any_policy(name) == nullptr) {
      throw Error(Status::kInvalid,
                  fmt::format("--policy: unknown policy '{}'; there are: all, {}", name, known_names()));
    }
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

std::uint64_t block_of(const std::string& text, std::uint64_t memory) {
  if (text.empty()) return Options::usual_block_bytes(memory);
  std::uint64_t bytes = 0;
  try {
    bytes = parse_size(text);
  } catch (const Error& error) {
    throw Error(error.status(), fmt::format("--block: {}", error.what()));
  }
  if (!std::has_single_bit(bytes) || bytes < kBlockMin || bytes > kBlockMax) {
    throw Error(Status::kInvalid, fmt::format("--block: must be a power of two from {} to {}", format_size(kBlockMin),
                                              format_size(kBlockMax)));
  }
  return bytes;
}

std::uint32_t seed_of(const std::string& text) {
  constexpr std::uint32_t kMost = std::numeric_limits<std::uint32_t>::max();
  if (const auto seed = read_number(text, 0, kMost)) return *seed;
  throw Error(Status::kInvalid, fmt::format("--seed: '{}' is not a number from 0 to {}", text, kMost));
}

std::uint32_t iterations_of(const std::string& text) {
  if (text.empty()) return kIterations;
  if (const auto iterations = read_number(text, 1, kIterationsMax)) return *iterations;
  throw Error(Status::kInvalid, fmt::format("--iterations: '{}' is not a number from 1 to {}", text, kIterationsMax));
}

// What is said of one iteration that repeats makes no sense of a sequence.
void check_sequence(const SimArguments& arguments) {
  const auto refuse = [](const char* option, const char* why) {
    throw Error(Status::kInvalid, fmt::format("{}: {}; leave it out for a sequence of iterations", option, why));
  };
  if (!arguments.iterations.empty()) refuse("--iterations", "it is run once, as it was recorded");
  if (arguments.vary != 0) refuse("--vary", "each iteration has its own times");
  if (arguments.timing != "strict") refuse("--timing", "the artifact knows one iteration that repeats");
}

TraceSimulator::Options options_of(const SimArguments& arguments, const Trace& trace) {
  TraceSimulator::Options options;
  options.machine = machine_of(arguments.machine, trace.origin);
  options.block_bytes = block_of(arguments.block, options.machine.device_bytes);
  options.iterations =
      trace.sequence ? static_cast<std::uint32_t>(trace.steps.size()) : iterations_of(arguments.iterations);
  if (options.machine.device_bytes / options.block_bytes < TraceSimulator::kDeviceBlocksMin) {
    throw Error(Status::kInvalid, fmt::format("--device-memory: must hold at least {} blocks of {}; give more memory, "
                                              "or smaller blocks with --block",
                                              TraceSimulator::kDeviceBlocksMin, format_size(options.block_bytes)));
  }
  if (arguments.timing != "strict" && arguments.timing != "artifact") {
    throw Error(Status::kInvalid, fmt::format("--timing: '{}' is neither strict nor artifact", arguments.timing));
  }
  if (arguments.timing == "artifact") options.timing = TraceSimulator::Timing::kArtifact;
  if (!(arguments.vary >= 0 && arguments.vary < 1)) {
    throw Error(Status::kInvalid, "--vary: must be from 0 to less than 1, such as 0.25");
  }
  return options;
}

// One factor a launch, drawn from [1 - vary, 1 + vary]: for every iteration after the first, so that what a policy has
// learned is what the trace says.
std::vector<double> draw_factors(const Trace& trace, double vary, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<double> factors;
  for (std::size_t i = 0; i < trace.launches.size(); ++i) {
    factors.push_back(1 + vary * (2 * std::ldexp(static_cast<double>(rng.next() >> 11), -53) - 1));
  }
  return factors;
}

// The times that count in a bound are those of the last iteration.
Trace varied(Trace trace, const std::vector<double>& factors) {
  for (std::size_t i = 0; i < factors.size(); ++i) {
    std::uint64_t& ns = trace.launches[i].ns;
    if (ns != Trace::kUnknown) ns = static_cast<std::uint64_t>(std::llround(static_cast<double>(ns) * factors[i]));
  }
  return trace;
}

// Fills in what each policy and each bound comes to.
void run_all(const std::vector<std::string>& names, const std::vector<double>& factors, SimFindings& findings) {
  const TraceSimulator::Options& options = findings.options;
  const Trace last = varied(findings.trace, options.iterations > 1 ? factors : std::vector<double>{});
  std::vector<std::function<void()>> pieces;
  const auto add_bound = [&](Bound& bound, Dead dead, Copies copies) {
    pieces.emplace_back([&, dead, copies] {
      bound = lower_bound(counted_vitality(last, findings.warm_up, dead), options.machine, {.copies = copies});
    });
  };
  if (!is_artifact(findings) && !findings.no_bound) {  // they take longest
    add_bound(findings.bound, Dead::kStays, Copies::kKeptClean);
    add_bound(findings.bound_written, Dead::kVanishes, Copies::kWritten);
  }
  findings.results.resize(names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    pieces.emplace_back([&, i] {
      TraceSimulator simulator(findings.trace, make_any_policy(names[i]), options);
      findings.results[i] = {names[i], simulator.run()};
    });
  }
  ProgressLine progress(std::chrono::seconds(1));
  run_in_parallel(pieces, [&](std::size_t done) {
    progress.show(fmt::format("{} of {} policies and bounds", done, pieces.size()));
  });
}

}  // namespace

int simulate_trace(const SimArguments& arguments) {
  const std::vector<std::string> names = policies_of(arguments.policy);
  const Trace trace = read_trace(arguments.trace);
  TraceSimulator::Options options = options_of(arguments, trace);
  if (trace.launches.empty()) throw Error(Status::kInvalid, "the trace has no launches: there is nothing to simulate");
  if (!arguments.ranks.empty()) {
    if (arguments.policy != "all" && names.size() > 1) throw Error(Status::kInvalid, "--policy: one only with --ranks");
    return simulate_ranks(arguments, trace, arguments.policy == "all" ? "foresight" : names.front(), options);
  }
  if (trace.sequence) check_sequence(arguments);
  const std::uint32_t warm_up = warm_up_of(arguments.warm_up, trace);
  const std::uint32_t seed = seed_of(arguments.seed);
  std::vector<double> factors;
  if (arguments.vary > 0) {
    factors = draw_factors(trace, arguments.vary, seed);
    options.vary = [&factors](std::uint32_t iteration, std::size_t launch) {
      return iteration == 0 ? 1.0 : factors[launch];
    };
  }
  SimFindings findings{trace, arguments.trace, options, warm_up, arguments.vary, seed, arguments.no_bound, {}, {}, {}};
  run_all(names, factors, findings);
  write_all(STDOUT_FILENO, arguments.json ? to_json(findings) : to_table(findings, wants_colour(STDOUT_FILENO)));
  return 0;
}

}  // namespace ebb::cli
