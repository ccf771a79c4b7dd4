// FuzzProgram: a random program over a simulated runtime and a model of its memory: allocations of all sizes, launches
// within launches, loops like those of training, reads and writes, threads that touch what is absent, forks, pinned
// pages, other memory that grows and shrinks, a budget that does. It promises, after every operation, what Ebbtide
// promises. This part throws the dice; FuzzMemory, FuzzLaunches and FuzzSnapshots do what they say.
#pragma once

#include <vector>

#include "core_fuzz_launches.h"
#include "core_fuzz_memory.h"
#include "core_fuzz_snapshots.h"
#include "core_fuzz_world.h"

namespace ebb {

class FuzzProgram : FuzzWorld, FuzzPart {
 public:
  FuzzProgram(const Scenario& of, std::uint64_t seed, FuzzHistory& told)
      : FuzzWorld(of, seed, told), FuzzPart(static_cast<FuzzWorld&>(*this)) {}

  // Runs the whole program; returns the hash of all that happened, and of one more random number.
  std::uint64_t run() {
    for (std::uint32_t step = 0; step < scenario_.steps; ++step) {
      operation();
      driver_.validate();
    }
    finish();
    driver_.log().note(EventLog::Kind::kProgram, rng_.next());
    return driver_.log().hash();
  }

  const SimDriver& driver() const { return driver_; }
  SimDriver& driver() { return driver_; }

 private:
  void operation() {
    snapshots_.settle_written();
    if (rng_.chance(1, 10)) return rng_.chance(1, 2) ? launches_.queue() : launches_.run_queued(rng_.chance(1, 8));
    const std::uint64_t dice = rng_.below(100);
    if (dice < 16) {
      memory_.allocate(memory_.random_size());
    } else if (dice < 26) {
      memory_.free_any();
    } else if (dice < 44) {
      memory_.access(true);
    } else if (dice < 60) {
      memory_.access(false);
    } else if (dice < 72) {
      launches_.announce();
    } else if (dice < 82) {
      launches_.retire();
    } else if (dice < 88) {
      memory_.touch_elsewhere();
    } else if (dice < 89) {
      memory_.adopt();
    } else if (dice < 90) {
      rng_.chance(2, 3) ? memory_.map() : memory_.renew();
      if (rng_.chance(1, 2)) launches_.foretell();
    } else if (dice < 91) {
      launches_.train();
    } else if (dice < 93) {
      rng_.chance(1, 2) ? memory_.set_small_bytes() : memory_.set_budget();
    } else if (dice < 95) {
      snapshots_.snapshot();
    } else if (dice < 97) {
      snapshots_.release_snapshot();
    } else {
      rest();
    }
    if (scenario_.pinned_percent > 0 && rng_.chance(scenario_.pinned_percent, 100)) memory_.pin();
  }

  void rest() {
    history_.add("rest");
    if (rng_.chance(1, 2)) {
      driver_.settle();
    } else {
      driver_.turn();
    }
    if (rng_.chance(1, 3)) driver_.memory().unpin_all();
  }

  // Everything is read once more and given back: nothing may be left over.
  void finish() {
    history_.add("finish");
    driver_.memory().unpin_all();
    launches_.finish();
    snapshots_.finish();
    snapshots_.settle_written();
    driver_.settle();
    snapshots_.settle_written();
    for (const FuzzModel::Allocation& allocation : std::vector(model_.allocations())) {
      memory_.access({allocation.offset, allocation.bytes, allocation.offset, true}, false);
    }
    driver_.settle();
    while (!model_.allocations().empty()) memory_.free_one(model_.allocations().size() - 1);
    driver_.give_up_kept();
    driver_.pump();
    driver_.settle();
    driver_.validate();
    const PageTable& table = driver_.core().table();
    EBB_CHECK_EQ(driver_.core().extents().used(), 0u);
    EBB_CHECK_EQ(driver_.core().extents().files().used(), 0u);
    EBB_CHECK_EQ(table.count(BlockState::kResident), driver_.core().engine().dead_resident());
    EBB_CHECK_EQ(table.count(BlockState::kResident) + table.count(BlockState::kUntouched), table.size());
    EBB_CHECK_EQ(driver_.device().in_flight(), 0u);
  }

  FuzzMemory memory_{*this};
  FuzzLaunches launches_{*this, memory_};
  FuzzSnapshots snapshots_{*this};
};

}  // namespace ebb
