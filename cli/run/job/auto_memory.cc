// See auto_memory.h.
#include "run/job/auto_memory.h"

namespace ebb::cli {

AutoBudget::Sample sample_of(const MachineMemory& memory) {
  AutoBudget::Sample sample;
  if (memory.total_bytes > 0) sample.levels.push_back({memory.total_bytes, memory.available_bytes});
  for (const MachineMemory::Limit& limit : memory.limits) {
    sample.levels.push_back({limit.limit_bytes, limit.left_bytes});
  }
  sample.machine_stall_us = memory.stall_us;
  sample.group_stall_us = memory.group_stall_us;
  return sample;
}

AutoMemory::AutoMemory() : budget_(reader_.read().most_bytes()) { look(0, 0); }

std::uint64_t AutoMemory::look(std::uint64_t held_bytes, std::uint64_t least_bytes) {
  AutoBudget::Sample sample = sample_of(reader_.read());
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  sample.now_ms = static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
  sample.held_bytes = held_bytes;
  sample.least_bytes = least_bytes;
  return budget_.update(sample);
}

}  // namespace ebb::cli
