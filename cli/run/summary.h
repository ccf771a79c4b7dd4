// The account of one run: as a table for people, and as one JSON object for programs. Main thread.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "ebb/stats.h"
#include "ebb/status.h"
#include "run/child_process.h"
#include "run/job/job_server.h"
#include "run/job/ranks.h"

namespace ebb::cli {

struct RunAccount {
  std::vector<std::string> command;
  ChildOutcome outcome;
  bool imported_torch = false;  // a process of the program claimed to be the managed one
  std::uint64_t others = 0;     // that imported torch, and are not managed
  bool managed = false;         // and published statistics
  bool on_device = false;       // its budget is of GPU memory
  std::uint64_t block_bytes = 2 << 20;
  std::string policy;
  std::string description;
  std::string not_loaded;  // why the program could load no library of Ebbtide's; empty if it could
  Stats stats;
  std::vector<double> step_seconds;  // of the newest
  std::uint64_t step_count = 0;
  std::uint64_t steps_fetched_bytes = 0;
  WaitReport waits;             // of the process that waited most
  std::string page;             // its statistics
  std::string disk;             // the directory for flash
  double disk_read_bps = 0;     // as `ebb calibrate` measured it; 0: it did not
  std::vector<Rank> ranks;      // of a launcher; the statistics are of all together
  std::vector<Rank> processes;  // that are neither ranks nor the first
  std::optional<JobFacts> job;  // nothing: the budget is not shared
};

// What smaller blocks would do for it; "": nothing that is known. Touches in no order bring a whole block each.
std::string block_advice(const RunAccount& account);

nlohmann::ordered_json summary_json(const RunAccount& account);

// Lines that each end in a newline.
std::string summary_table(const RunAccount& account, bool colour);

// A file that will hold the summary, or the report. Construction finds out whether it can be written, without touching
// what is there; writing replaces a regular file in one step, and goes straight into anything else (a pipe,
// /dev/stdout).
class SummaryFile {
 public:
  // Throws Error(kInvalid) with the reason when `path` cannot be written.
  // `what` it is to hold, with the option that names it.
  SummaryFile(const std::string& path, const char* what, const char* option);
  // Throws Error(kIoError); an existing file is then untouched.
  void write(const std::string& text) const;

 private:
  [[noreturn]] void refuse(Status status, const char* reason) const;

  std::string path_;  // as given, for messages
  const char* what_;
  const char* option_;
  std::string target_;  // with symbolic links followed
  bool replaces_ = true;
};

}  // namespace ebb::cli
