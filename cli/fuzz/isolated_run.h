// One program of the fuzzer in a child process, which a failed check may end: what came of it. One thread.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "drivers/linux/system/system_files.h"
#include "sim/fuzz/fuzz_history.h"
#include "sim/scenario.h"

namespace ebb::cli {

struct FuzzRecord;

struct Verdict {
  bool failed = false;
  std::string what;    // the check that failed, or "hangs", without its numbers: the same again has the same
  std::string output;  // what the child has said
};

// A child process that runs `work`, which returns its exit code, with its stderr read here. A failed check prints what
// `history` has. It ends with this process, and cares nothing for Ctrl-C.
class Child {
 public:
  Child(FuzzHistory& history, const std::function<int()>& work);
  ~Child() { kill(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  int errors() const { return errors_.get(); }
  // Takes what it has said, until it says no more; false when that was all, for ever.
  bool read_errors();
  void kill();
  // Waits for its end.
  Verdict verdict();

 private:
  pid_t pid_ = -1;
  FileDescriptor errors_;
  std::string output_;
};

// Twice, to see whether the same happens.
Verdict run_isolated(const Scenario& scenario);
// In this process: what run_isolated() has its child do. Returns the exit code. The process ends when that takes much
// longer than it should: of its own time, whatever else the machine does.
int run_twice(const Scenario& scenario, FuzzHistory& history, FuzzRecord* record);

}  // namespace ebb::cli
