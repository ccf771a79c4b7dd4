// AutoMemory: the budget of a job that follows what the machine has: reads the machine's memory, and has AutoBudget
// (src/job) decide. Owned by JobServer, whose thread looks; a look takes a fraction of a millisecond.
#pragma once

#include <chrono>
#include <cstdint>

#include "drivers/linux/system/machine_memory.h"
#include "job/auto_budget.h"

namespace ebb::cli {

// The machine and its control groups as AutoBudget knows them.
AutoBudget::Sample sample_of(const MachineMemory& memory);

class AutoMemory {
 public:
  static constexpr std::chrono::milliseconds kEvery{50};

  // Has looked once, with nothing held.
  AutoMemory();

  // What the budget should be, of a job that holds so much and cannot do with less than the least.
  std::uint64_t look(std::uint64_t held_bytes, std::uint64_t least_bytes);

  std::uint64_t bytes() const { return budget_.bytes(); }
  std::uint64_t most_bytes() const { return budget_.most_bytes(); }

 private:
  const MemoryReader reader_;
  AutoBudget budget_;
};

}  // namespace ebb::cli
