// core_fuzz: the fuzzer of src/sim/fuzz within one process, for ctest and for sanitizers; `ebb fuzz` is the one that
// goes on after a failure and makes it short. Every run is done twice: both times the same must happen at every port.
//
//   core_fuzz --seed 1 --runs 200             # seeds 1 to 200; on a failure the seed is in the output
//   core_fuzz --seed 17 --runs 1 --steps 400  # one of them again
//   core_fuzz --scenario tests/scenario/corruption.json
#include <sys/time.h>

#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

#include "ebb/status.h"
#include "rivals/policies.h"
#include "sim/fuzz/fuzz_draw.h"
#include "sim/fuzz/fuzz_run.h"

namespace ebb {
namespace {

constexpr std::uint32_t kSteps = 200;
constexpr time_t kHangsS = 60;  // one run takes milliseconds, some seconds under a sanitizer

struct Arguments {
  std::uint64_t seed = 1;
  std::uint32_t runs = 100;
  std::optional<std::uint32_t> steps;
  std::optional<std::string> policy;
  std::optional<Scenario> scenario;
  bool verbose = false;
};

FuzzHistory g_history;
std::uint64_t g_seed = 0;
std::string g_machine;

// A failed check aborts: say how to have it again. Neither printf nor the history is made for signal handlers, but the
// process ends here anyway, and it is alone.
void on_abort(int) {
  std::fprintf(stderr, "core_fuzz: seed %" PRIu64 " failed, of %sits last operations:\n", g_seed, g_machine.c_str());
  g_history.for_each([](std::size_t i, const char* line) { std::fprintf(stderr, "  %zu: %s\n", i, line); });
  std::fprintf(stderr, "core_fuzz: again with --seed %" PRIu64 " --runs 1 and the other options as they were\n",
               g_seed);
  std::signal(SIGABRT, SIG_DFL);
}

void on_hang(int) {
  std::fprintf(stderr, "core_fuzz: seed %" PRIu64 " hangs\n", g_seed);
  std::abort();
}

[[noreturn]] void usage(const char* why, const char* what) {
  std::fprintf(stderr,
               "core_fuzz: %s '%s'\nusage: core_fuzz [--seed N] [--runs N] [--steps N] [--policy NAME] "
               "[--scenario FILE] [--verbose]\n",
               why, what);
  std::exit(2);
}

std::uint64_t number(const char* text) {
  char* end = nullptr;
  const std::uint64_t value = std::strtoull(text, &end, 10);
  if (*text < '0' || *text > '9' || *end != '\0') usage("not a number:", text);
  return value;
}

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  std::optional<std::uint64_t> seed;
  std::optional<std::uint32_t> runs;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--verbose") {
      arguments.verbose = true;
      continue;
    }
    if (i + 1 == argc) usage("unknown option, or without its value:", argv[i]);
    const char* const value = argv[++i];
    if (name == "--seed") {
      seed = number(value);
    } else if (name == "--runs") {
      runs = static_cast<std::uint32_t>(number(value));
    } else if (name == "--steps") {
      arguments.steps = static_cast<std::uint32_t>(number(value));
    } else if (name == "--policy") {
      if (make_any_policy(value) == nullptr) usage("unknown policy", value);
      arguments.policy = value;
    } else if (name == "--scenario") {
      arguments.scenario = Scenario::load(value);
    } else {
      usage("unknown option", argv[i - 1]);
    }
  }
  if (arguments.scenario) {
    arguments.seed = arguments.scenario->seed;
    arguments.runs = arguments.scenario->runs;
  }
  const bool one = arguments.scenario && !arguments.scenario->operations.empty();  // which is all that it has

  arguments.seed = seed.value_or(arguments.seed);
  arguments.runs = one ? 1 : runs.value_or(arguments.runs);
  return arguments;
}

Scenario scenario_of(const Arguments& arguments, std::uint64_t seed) {
  if (!arguments.scenario) {
    Scenario scenario = draw_scenario(seed, arguments.steps.value_or(kSteps));
    scenario.policy = arguments.policy.value_or(scenario.policy);
    return scenario;
  }
  Scenario scenario = *arguments.scenario;
  scenario.policy = arguments.policy.value_or(scenario.policy);
  if (!scenario.operations.empty()) return scenario;
  scenario.seed = seed;
  scenario.steps = arguments.steps.value_or(scenario.steps);
  draw_operations(scenario);
  return scenario;
}

std::string describe(Scenario scenario) {
  scenario.operations.clear();
  return scenario.to_json();
}

// What the runs reached together: a fault that never happens tests nothing.
void print_reached(const FuzzOutcome& all) {
  std::printf("reached: %" PRIu64 " fetched, %" PRIu64 " evicted, %" PRIu64 " clean, %" PRIu64 " prefetched, ",
              all.engine.fetched, all.engine.evicted, all.engine.clean, all.engine.prefetched);
  std::printf("%" PRIu64 " rescued, %" PRIu64 " I/O errors, %" PRIu64 " lost, %" PRIu64 " starved; ",
              all.engine.rescues, all.engine.io_errors, all.driver.lost, all.driver.starved);
  std::printf("of ranges kept for reuse %" PRIu64 " taken, %" PRIu64 " given up\n", all.driver.kept_taken,
              all.driver.kept_released);
  for (std::size_t i = 0; i < kFaults; ++i) {
    std::printf("%s%s %" PRIu64, i == 0 ? "injected: " : ", ", kFaultNames[i].data(), all.injected[Fault(i)]);
  }
  std::printf("\n%" PRIu64 " operations\n", all.operations);
}

int run(const Arguments& arguments) {
  std::signal(SIGABRT, on_abort);
  std::signal(SIGVTALRM, on_hang);
  std::printf("seed %" PRIu64 ", %u runs\n", arguments.seed, arguments.runs);
  std::fflush(stdout);
  FuzzOutcome all;
  for (std::uint32_t i = 0; i < arguments.runs; ++i) {
    g_seed = arguments.seed + i;
    const itimerval limit{{0, 0}, {kHangsS, 0}};  // of its own time, whatever else the machine does
    ::setitimer(ITIMER_VIRTUAL, &limit, nullptr);
    const Scenario scenario = scenario_of(arguments, g_seed);
    g_machine = describe(scenario);
    FuzzOutcome outcome;
    if (!run_fuzz_twice(scenario, g_history, outcome)) {
      std::fprintf(stderr, "core_fuzz: seed %" PRIu64 " came to two different ends: the core is not deterministic\n",
                   g_seed);
      return 1;
    }
    if (arguments.verbose) {
      std::printf("seed %" PRIu64 ", %016" PRIx64 ": %s", g_seed, outcome.hash, g_machine.c_str());
    }
    all.add(outcome);
  }
  print_reached(all);
  std::printf("unseed %016" PRIx64 "\nseed %" PRIu64 ", %u runs\n", all.hash, arguments.seed, arguments.runs);
  return 0;
}

}  // namespace
}  // namespace ebb

int main(int argc, char** argv) {
  try {
    return ebb::run(ebb::parse(argc, argv));
  } catch (const ebb::Error& error) {
    std::fprintf(stderr, "core_fuzz: %s\n", error.what());
    return 2;
  }
}
