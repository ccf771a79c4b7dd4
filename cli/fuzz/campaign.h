// Fuzzing, seed after seed, in child processes: until the time is over, so many seeds have run, one fails, or the user
// presses Ctrl-C, which ends it with what there is so far. One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "fuzz/isolated_run.h"
#include "sim/fuzz/fuzz_run.h"

namespace ebb::cli {

// What a child says of one seed, through a pipe.
struct FuzzRecord {
  std::uint64_t seed = 0;
  FuzzOutcome outcome;
};

struct Failure {
  std::string name;  // of a file; empty: the seed says which it is
  std::uint64_t seed = 0;
  Verdict verdict;
  std::optional<Scenario> shortest;
  std::uint32_t tries = 0;  // it took to find that
};

struct Campaign {
  std::uint64_t seed = 1;  // the first one
  std::uint32_t operations = 0;
  std::uint64_t seeds_max = 0;
  std::chrono::duration<double> time{};

  // What came of it.
  std::uint64_t seeds = 0;
  FuzzOutcome all;
  double seconds = 0;
  bool interrupted = false;
  std::optional<Failure> failure;
};

void run_campaign(Campaign& campaign);

// Makes a failure short, in at most so many tries.
void shorten(Failure& failure, const Scenario& scenario);

}  // namespace ebb::cli
