// Runs a fuzzer's program: a random one over a simulated runtime, with a model of every byte of its memory beside it.
// After each operation it is checked that the program saw no wrong byte, that no block was lost but to a fault that may
// take one, that memory is within its budget, that whoever waits is served, and that the core's structures agree.
//
// A check that fails ends the process, as any failed EBB_CHECK does: who wants to go on runs it in one of its own.
#pragma once

#include <cstdint>

#include "sim/fuzz/fuzz_history.h"
#include "sim/scenario.h"
#include "sim/simulator.h"

namespace ebb {

struct FuzzOutcome {
  std::uint64_t hash = 0;  // of everything that crossed a port
  std::uint64_t operations = 0;
  std::uint64_t virtual_ns = 0;
  SimDriver::Counters driver;
  Engine::Counters engine;
  FaultCounts injected;
  std::uint64_t flash_full = 0, frames_short = 0;  // refusals of extents, and of frames

  // Sums, but for the hash, which tells the order too.
  void add(const FuzzOutcome& other);
};

// The operations of the scenario, once; `history` tells what it is at.
FuzzOutcome run_fuzz(const Scenario& scenario, FuzzHistory& history);

// The same twice. Whether the core's structures agree is looked at in the first only: the second has the same, or
// another end. False: it has, so the core is not deterministic.
bool run_fuzz_twice(const Scenario& scenario, FuzzHistory& history, FuzzOutcome& outcome);

}  // namespace ebb
