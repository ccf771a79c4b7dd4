// FuzzProgram: a random program over a simulated runtime and a model of its memory: allocations of all sizes, launches
// within launches, loops like those of training, reads and writes, threads that touch what is absent, forks, pinned
// pages, other memory that grows and shrinks. It promises, after every operation, what Ebbtide promises. This part
// takes one operation after the other; FuzzMemory, FuzzLaunches and FuzzSnapshots do what they say.
#pragma once

#include <vector>

#include "sim/fuzz/fuzz_launches.h"
#include "sim/fuzz/fuzz_memory.h"
#include "sim/fuzz/fuzz_snapshots.h"
#include "sim/fuzz/fuzz_world.h"

namespace ebb {

class FuzzProgram : FuzzWorld, FuzzPart {
 public:
  FuzzProgram(const Scenario& of, FuzzHistory& told) : FuzzWorld(of, told), FuzzPart(static_cast<FuzzWorld&>(*this)) {}

  // Runs the whole program; returns the hash of all that happened. validates: the core's structures are looked at after
  // each operation, which takes a quarter of the time.
  std::uint64_t run(bool validates) {
    for (const FuzzOperation& operation : scenario_.operations) {
      rng_ = Rng(operation.dice);
      driver_.reseed(rng_.next());
      snapshots_.settle_written();
      perform(operation.action);
      if (validates) driver_.validate();
    }
    finish();
    return driver_.log().hash();
  }

  SimDriver& driver() { return driver_; }

 private:
  void perform(FuzzAction action) {
    switch (action) {
      case FuzzAction::kAllocate: return static_cast<void>(memory_.allocate(memory_.random_size()));
      case FuzzAction::kFree: return memory_.free_any();
      case FuzzAction::kWrite: return memory_.access(true);
      case FuzzAction::kRead: return memory_.access(false);
      case FuzzAction::kLaunch: return launches_.announce();
      case FuzzAction::kRetire: return launches_.retire();
      case FuzzAction::kQueue: return launches_.queue();
      case FuzzAction::kRunQueued: return launches_.run_queued(false);
      case FuzzAction::kForgetQueued: return launches_.run_queued(true);
      case FuzzAction::kTouchElsewhere: return memory_.touch_elsewhere();
      case FuzzAction::kAdopt: return memory_.adopt();
      case FuzzAction::kMap: return memory_.map();
      case FuzzAction::kRenew: return memory_.renew();
      case FuzzAction::kForetell: return launches_.foretell();
      case FuzzAction::kTrain: return launches_.train();
      case FuzzAction::kSmallBytes: return memory_.set_small_bytes();
      case FuzzAction::kMakeFrame: return memory_.make_frame();
      case FuzzAction::kFork: return snapshots_.snapshot();
      case FuzzAction::kChildEnds: return snapshots_.release_snapshot();
      case FuzzAction::kPin: return memory_.pin();
      case FuzzAction::kUnpin: return driver_.memory().unpin_all();
      case FuzzAction::kTurn: return static_cast<void>(driver_.turn());
      case FuzzAction::kSettle: return settle();
      case FuzzAction::kSetBudget: return memory_.set_budget();
    }
  }

  void settle() {
    history_.add("settle");
    driver_.settle();
    if (!launches_.running() && driver_.memory().pinned() == 0) driver_.check_within_budget();
  }

  // Everything is read once more and given back: nothing may be left over.
  void finish() {
    history_.add("finish");
    rng_ = Rng(scenario_.seed);
    driver_.reseed(rng_.next());
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
    EBB_CHECK(driver_.all_files_closed());
    EBB_CHECK_EQ(table.count(BlockState::kResident), driver_.core().engine().dead_resident());
    EBB_CHECK_EQ(table.count(BlockState::kResident) + table.count(BlockState::kUntouched), table.size());
    EBB_CHECK_EQ(driver_.device().in_flight(), 0u);
  }

  FuzzMemory memory_{*this};
  FuzzLaunches launches_{*this, memory_};
  FuzzSnapshots snapshots_{*this};
};

}  // namespace ebb
