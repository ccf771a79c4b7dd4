// RunNotice: what a run tells the other commands of its user about itself (`ebb top`): two small files in its private
// directory. Written by the main thread, but for the budget, which the job's thread may change. A run goes on without
// them where they cannot be written.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "drivers/linux/system/system_files.h"

namespace ebb::cli {

struct RunFacts {
  pid_t pid = 0;  // of `ebb`
  std::vector<std::string> command;
  double started = 0;              // seconds since 1970
  std::uint64_t budget_bytes = 0;  // now, of all processes together
  bool automatic = false;          // it follows what the machine has
  bool on_device = false;          // it is of a GPU's memory
  double disk_read_bps = 0;        // as `ebb calibrate` measured it; 0: not known, or not what is fetched from
};

class RunNotice {
 public:
  RunNotice(const std::string& path, const RunFacts& facts);
  void set_budget(std::uint64_t bytes) const;

  static constexpr const char* kName = "run";              // in the private directory
  static constexpr const char* kBudgetSuffix = ".budget";  // eight bytes, rewritten in place

 private:
  FileDescriptor budget_;
};

// From the text of the two files; nothing if they are not what RunNotice writes.
std::optional<RunFacts> parse_run_notice(const std::string& notice, const std::string& budget);

}  // namespace ebb::cli
