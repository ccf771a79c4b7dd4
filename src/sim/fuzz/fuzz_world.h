// FuzzWorld: what the parts of a fuzzer's program share: the simulated runtime, the model of its memory, and the dice.
// A FuzzPart has all of it at hand. Owned by FuzzProgram; header-only: the fuzzer is one program.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sim/fuzz/fuzz_history.h"
#include "sim/fuzz/fuzz_model.h"
#include "sim/scenario.h"
#include "sim/simulator.h"

namespace ebb {

// A launch to come.
struct FuzzQueued {
  std::uint64_t expected = 0;
  std::vector<Core::Range> ranges;

  bool uses(const FuzzModel::Allocation& allocation) const {
    return std::any_of(ranges.begin(), ranges.end(), [&](const Core::Range& range) {
      return range.offset < allocation.offset + allocation.bytes && allocation.offset < range.offset + range.bytes;
    });
  }
};

struct FuzzWorld {
  static constexpr std::uint64_t kBlockBytes = 4096;

  FuzzWorld(const Scenario& of, FuzzHistory& told)
      : scenario(of),
        rng(of.seed),
        keeps(rng.chance(1, 2)),
        history(told),
        blocks((of.frames + of.extents + of.host_extents) * 8 / 4 * 4 + beyond(of)),
        driver(driver_config(of, blocks)),
        model(blocks, kBlockBytes) {}

  // For files larger than all else.
  static std::uint32_t beyond(const Scenario& scenario) { return scenario.frames * 4; }
  static SimDriver::Config driver_config(const Scenario& scenario, std::uint32_t blocks) {
    SimDriver::Config config;
    config.block_bytes = kBlockBytes;
    config.frames = scenario.frames;
    config.blocks = blocks;
    config.blocks_beyond = beyond(scenario);
    config.extents = scenario.extents;
    config.frames_ahead = scenario.frames;
    config.host_extents = scenario.host_extents;
    config.seed = scenario.seed;
    config.policy = scenario.policy;
    config.faults = scenario.faults;
    return config;
  }

  const Scenario& scenario;
  Rng rng;
  const bool keeps;  // whether freed ranges are sometimes kept for reuse, as by a runtime's cache
  FuzzHistory& history;
  const std::uint32_t blocks;
  SimDriver driver;
  FuzzModel model;
  std::vector<FuzzQueued> queued;  // in the order in which they will run
};

class FuzzPart {
 protected:
  static constexpr std::uint64_t kBlockBytes = FuzzWorld::kBlockBytes;

  explicit FuzzPart(FuzzWorld& world)
      : scenario_(world.scenario),
        rng_(world.rng),
        history_(world.history),
        driver_(world.driver),
        model_(world.model),
        queued_(world.queued) {}

  const Scenario& scenario_;
  Rng& rng_;
  FuzzHistory& history_;
  SimDriver& driver_;
  FuzzModel& model_;
  std::vector<FuzzQueued>& queued_;
};

}  // namespace ebb
