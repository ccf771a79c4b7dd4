// See fuzz_run.h.
#include "sim/fuzz/fuzz_run.h"

#include "sim/fuzz/fuzz_program.h"

namespace ebb {

void FuzzOutcome::add(const FuzzOutcome& other) {
  hash = (hash ^ other.hash) * 0x9e3779b97f4a7c15ull;
  operations += other.operations;
  virtual_ns += other.virtual_ns;
  driver.turns += other.driver.turns;
  driver.faults += other.driver.faults;
  driver.starved += other.driver.starved;
  driver.lost += other.driver.lost;
  driver.kept_taken += other.driver.kept_taken;
  driver.kept_released += other.driver.kept_released;
  engine.fetched += other.engine.fetched;
  engine.evicted += other.engine.evicted;
  engine.clean += other.engine.clean;
  engine.prefetched += other.engine.prefetched;
  engine.rescues += other.engine.rescues;
  engine.io_errors += other.engine.io_errors;
  engine.corrupt += other.engine.corrupt;
  engine.rewritten += other.engine.rewritten;
  flash_full += other.flash_full;
  frames_short += other.frames_short;
  for (std::size_t i = 0; i < kFaults; ++i) {
    injected[Fault(i)] += other.injected[Fault(i)];
    driver.lost_by[Fault(i)] += other.driver.lost_by[Fault(i)];
  }
}

namespace {

FuzzOutcome run_once(const Scenario& scenario, FuzzHistory& history, bool validates) {
  history.clear();
  FuzzProgram program(scenario, history);
  FuzzOutcome outcome;
  outcome.hash = program.run(validates);
  outcome.operations = scenario.operations.size();
  SimDriver& driver = program.driver();
  outcome.virtual_ns = driver.clock().now_ns();
  outcome.driver = driver.counters();
  outcome.engine = driver.core().engine().counters();
  const SimFlash::Counters& flash = driver.device().counters();
  const SimMemory::Counters& memory = driver.memory().counters();
  outcome.flash_full = flash.full;
  outcome.frames_short = memory.frames_short;
  for (std::size_t i = 0; i < kFaults; ++i) {
    outcome.injected[Fault(i)] = flash.injected[Fault(i)] + memory.injected[Fault(i)];
  }
  return outcome;
}

}  // namespace

FuzzOutcome run_fuzz(const Scenario& scenario, FuzzHistory& history) { return run_once(scenario, history, true); }

bool run_fuzz_twice(const Scenario& scenario, FuzzHistory& history, FuzzOutcome& outcome) {
  outcome = run_once(scenario, history, true);
  return run_once(scenario, history, false).hash == outcome.hash;
}

}  // namespace ebb
