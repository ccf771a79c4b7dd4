// core_fuzz: random programs over the core in the simulated world. Every run has a machine of its own size, a policy
// and faults drawn from its seed, and is done twice: both times the same must happen at every port.
//
//   core_fuzz --seed 1 --runs 200             # seeds 1 to 200; on a failure the seed is in the output
//   core_fuzz --seed 17 --runs 1 --steps 400  # one of them again
//   core_fuzz --scenario tests/scenario/corruption.json
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

#include "core_fuzz_program.h"
#include "ebb/status.h"
#include "rivals/policies.h"

namespace ebb {
namespace {

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
  std::fprintf(stderr, "core_fuzz: seed %" PRIu64 " failed, %s; its last operations:\n", g_seed, g_machine.c_str());
  g_history.print();
  std::fprintf(stderr, "core_fuzz: again with --seed %" PRIu64 " --runs 1 and the other options as they were\n",
               g_seed);
  std::signal(SIGABRT, SIG_DFL);
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
  arguments.seed = seed.value_or(arguments.seed);
  arguments.runs = runs.value_or(arguments.runs);
  return arguments;
}

// In two stages, so that runs differ in kind and not only in degree: whether a fault exists, then how often it happens.
Ratio maybe(Rng& rng, std::uint32_t most_often) {
  if (!rng.chance(1, 4)) return {};
  return {1, static_cast<std::uint32_t>(most_often * rng.between(1, 8))};
}

FaultPlan random_faults(Rng& rng, const Scenario& scenario) {
  FaultPlan plan;
  if (rng.chance(1, 3)) return plan;
  plan.read_error = maybe(rng, 8);
  plan.read_error_forever = maybe(rng, 64);
  plan.write_error = maybe(rng, 6);
  plan.write_error_forever = maybe(rng, 32);
  plan.corrupt_read = maybe(rng, 8);
  plan.corrupt_at_rest = maybe(rng, 64);
  plan.no_space = maybe(rng, 8);
  plan.busy = maybe(rng, 3);
  plan.create_error = maybe(rng, 4);
  if (rng.chance(1, 4)) plan.extents_available = static_cast<std::uint32_t>(rng.below(scenario.extents + 1));
  if (rng.chance(1, 8))
    plan.frames_available = static_cast<std::uint32_t>(rng.between(Core::kFramesMin, scenario.frames));
  return plan;
}

Scenario scenario_of(const Arguments& arguments, std::uint64_t seed) {
  if (arguments.scenario) {
    Scenario scenario = *arguments.scenario;
    scenario.steps = arguments.steps.value_or(scenario.steps);
    scenario.policy = arguments.policy.value_or(scenario.policy);
    return scenario;
  }
  static constexpr std::array<const char*, 3> kPolicies{"on_demand", "window", "foresight"};
  Rng rng(seed ^ 0x5ce7a110u);
  Scenario scenario;
  scenario.steps = arguments.steps.value_or(200);
  scenario.frames = static_cast<std::uint32_t>(rng.chance(1, 3) ? 8 : rng.between(8, 64));
  scenario.extents = static_cast<std::uint32_t>(rng.chance(1, 5) ? rng.below(9) : rng.between(16, 160));
  scenario.policy = arguments.policy.value_or(kPolicies[rng.below(kPolicies.size())]);
  if (make_any_policy(scenario.policy) == nullptr) scenario.policy = "window";
  scenario.pinned_percent = rng.chance(1, 4) ? static_cast<std::uint32_t>(rng.between(1, 20)) : 0;
  scenario.faults = random_faults(rng, scenario);
  // Host memory does not fail, so it is there only where nothing does.
  if (scenario.faults == FaultPlan() && rng.chance(1, 2)) {
    scenario.host_extents = static_cast<std::uint32_t>(rng.between(1, 64));
  }
  scenario.steady = scenario.faults == FaultPlan() && rng.chance(1, 2);
  return scenario;
}

struct Outcome {
  std::uint64_t hash = 0;
  SimDriver::Counters driver;
  Engine::Counters engine;
};

std::string describe(const Scenario& scenario) {
  std::string text = scenario.policy + ", " + std::to_string(scenario.frames) + " frames, " +
                     std::to_string(scenario.extents) + " extents, " + std::to_string(scenario.host_extents) +
                     " in host memory, " + std::to_string(scenario.pinned_percent) + " % pinned" +
                     (scenario.steady ? ", steady" : "");
  const FaultPlan& faults = scenario.faults;
  const std::array<std::pair<const char*, Ratio>, 9> rates{{{"read_error", faults.read_error},
                                                            {"read_error_forever", faults.read_error_forever},
                                                            {"write_error", faults.write_error},
                                                            {"write_error_forever", faults.write_error_forever},
                                                            {"corrupt_read", faults.corrupt_read},
                                                            {"corrupt_at_rest", faults.corrupt_at_rest},
                                                            {"no_space", faults.no_space},
                                                            {"busy", faults.busy},
                                                            {"create_error", faults.create_error}}};
  for (const auto& [name, rate] : rates) {
    if (rate.numerator == 0) continue;
    text += std::string(", ") + name + " " + std::to_string(rate.numerator) + "/" + std::to_string(rate.denominator);
  }
  if (faults.extents_available != FaultPlan().extents_available) {
    text += ", extents_available " + std::to_string(faults.extents_available);
  }
  if (faults.frames_available != FaultPlan().frames_available) {
    text += ", frames_available " + std::to_string(faults.frames_available);
  }
  return text;
}

Outcome run_once(const Scenario& scenario, std::uint64_t seed) {
  g_history.clear();
  g_machine = describe(scenario);
  FuzzProgram program(scenario, seed, g_history);
  Outcome outcome;
  outcome.hash = program.run();
  outcome.driver = program.driver().counters();
  outcome.engine = program.driver().core().engine().counters();
  return outcome;
}

// What the runs reached together: a fault that never happens tests nothing.
struct Reached {
  std::uint64_t fetched = 0, evicted = 0, clean = 0, prefetched = 0, rescues = 0, io_errors = 0, lost = 0, starved = 0;
  std::uint64_t kept_taken = 0, kept_released = 0;
  void add(const Outcome& outcome) {
    fetched += outcome.engine.fetched;
    evicted += outcome.engine.evicted;
    clean += outcome.engine.clean;
    prefetched += outcome.engine.prefetched;
    rescues += outcome.engine.rescues;
    io_errors += outcome.engine.io_errors;
    lost += outcome.driver.lost;
    starved += outcome.driver.starved;
    kept_taken += outcome.driver.kept_taken;
    kept_released += outcome.driver.kept_released;
  }
  void print() const {
    std::printf("reached: %" PRIu64 " fetched, %" PRIu64 " evicted, %" PRIu64 " clean, %" PRIu64 " prefetched, ",
                fetched, evicted, clean, prefetched);
    std::printf("%" PRIu64 " rescued, %" PRIu64 " I/O errors, %" PRIu64 " lost, %" PRIu64 " starved; ", rescues,
                io_errors, lost, starved);
    std::printf("of ranges kept for reuse %" PRIu64 " taken, %" PRIu64 " given up\n", kept_taken, kept_released);
  }
};

int run(const Arguments& arguments) {
  std::signal(SIGABRT, on_abort);
  std::printf("seed %" PRIu64 ", %u runs\n", arguments.seed, arguments.runs);
  std::fflush(stdout);
  Reached reached;
  std::uint64_t unseed = 0;
  for (std::uint32_t i = 0; i < arguments.runs; ++i) {
    g_seed = arguments.seed + i;
    const Scenario scenario = scenario_of(arguments, g_seed);
    const Outcome outcome = run_once(scenario, g_seed);
    if (run_once(scenario, g_seed).hash != outcome.hash) {
      std::fprintf(stderr, "core_fuzz: seed %" PRIu64 " came to two different ends: the core is not deterministic\n",
                   g_seed);
      return 1;
    }
    if (arguments.verbose) {
      std::printf("seed %" PRIu64 ", %s: %016" PRIx64 "\n", g_seed, g_machine.c_str(), outcome.hash);
    }
    unseed = (unseed ^ outcome.hash) * 0x9e3779b97f4a7c15ull;
    reached.add(outcome);
  }
  reached.print();
  std::printf("unseed %016" PRIx64 "\nseed %" PRIu64 ", %u runs\n", unseed, arguments.seed, arguments.runs);
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
