// How much memory this machine, and the control groups this process is in, have and can still give.
//
// MemoryReader finds the control groups once, and reads them and the kernel's tables anew each time; it changes
// nothing. What cannot be read is left out: there may be no control group, and no measure of pressure. Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ebb {

struct MachineMemory {
  // A control group, and what is left under its limit once page cache that can be dropped is counted as free.
  struct Limit {
    std::uint64_t limit_bytes = 0;
    std::uint64_t left_bytes = 0;
  };

  std::uint64_t total_bytes = 0;
  std::uint64_t available_bytes = 0;  // what the kernel believes can be had without swapping
  std::uint64_t swap_bytes = 0;
  std::vector<Limit> limits;  // of the control groups (v1 or v2) above this process
  // Of those the tightest limit, and the least that is left.
  std::optional<std::uint64_t> limit_bytes;
  std::optional<std::uint64_t> left_bytes;
  // Time in which some process waited for memory (PSI): of the machine's, and of our own control group's (v2).
  std::optional<std::uint64_t> stall_us;
  std::optional<std::uint64_t> group_stall_us;

  // What a program may take: the lesser of the machine and the control groups.
  std::uint64_t usable_bytes() const;
  // 80 % of it: the budget of `ebb run` without --memory.
  std::uint64_t default_budget_bytes() const;
  // What there would be if nobody had taken any.
  std::uint64_t most_bytes() const;
};

class MemoryReader {
 public:
  // `root`: where /proc and the control groups are found, for tests; empty: the machine's.
  explicit MemoryReader(std::string root = "");

  MachineMemory read() const;

 private:
  struct Group {
    std::string directory;
    bool unified = false;  // v2
  };
  void find_groups(bool unified);

  const std::string root_;
  std::vector<Group> groups_;  // ours, and those above it
  std::string pressure_;       // of our own
};

MachineMemory read_machine_memory();

}  // namespace ebb
