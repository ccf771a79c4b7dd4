// StatsFile: the writer's side of ebb::StatsPage: a mapped file, or nothing when no path was given.
//
// update(), end_step() and forget_steps() are called under the runtime's lock and do not allocate.
#pragma once

#include <string>
#include <vector>

#include "ebb/stats_page.h"

namespace ebb {

class StatsFile {
 public:
  StatsFile() = default;
  StatsFile(const StatsFile&) = delete;
  StatsFile& operator=(const StatsFile&) = delete;
  ~StatsFile();
  // Throws Error if the file cannot be made. An empty path: steps are kept in memory only.
  void open(const std::string& path, const std::string& policy, const std::string& description);
  void update(const Stats& stats);
  // An iteration ends now, and the next one begins; so much has been fetched since the program began.
  void end_step(std::uint64_t fetched_bytes);
  // Those until now were none.
  void forget_steps();
  // Null in a forked child.
  WaitTable* waits() { return page_ != nullptr ? &page_->waits : nullptr; }
  RunTimeline* timeline() { return page_ != nullptr ? &page_->timeline : nullptr; }
  // Of the steps kept, oldest first.
  std::vector<double> step_seconds() const;
  // In a forked child: the page stays the parent's.
  void detach() { page_ = nullptr; }

 private:
  StatsPage* page_ = nullptr;
  std::uint64_t last_step_ns_ = 0;
  std::uint64_t last_fetched_bytes_ = 0;
};

}  // namespace ebb
