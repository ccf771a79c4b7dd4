// How much memory this machine, and the control groups this process is in, have and can still give.
// A reading of the moment; it changes nothing. Any thread.
#pragma once

#include <cstdint>
#include <optional>

namespace ebb {

struct MachineMemory {
  std::uint64_t total_bytes = 0;
  std::uint64_t available_bytes = 0;  // what the kernel believes can be had without swapping
  std::uint64_t swap_bytes = 0;
  // The tightest limit of the control groups (v1 or v2) above this process, if there is one, and what is left under
  // it once droppable page cache is counted as free.
  std::optional<std::uint64_t> limit_bytes;
  std::optional<std::uint64_t> left_bytes;

  // What a program may take: the lesser of the machine and the control groups.
  std::uint64_t usable_bytes() const;
  // 80 % of it: the budget of `ebb run` without --memory.
  std::uint64_t default_budget_bytes() const;
};

MachineMemory read_machine_memory();

}  // namespace ebb
