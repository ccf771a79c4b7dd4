// StatusLine: one line at the bottom of the terminal, kept clear of the program's output by a scroll region (DECSTBM),
// that shows what the managed program's memory is doing. Draws only while `ebb` is in the foreground; its destructor,
// and every suspension, gives the whole terminal back. Main thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "run/child_process.h"
#include "run/job/job_server.h"
#include "run/stats_reader.h"

namespace ebb::cli {

// Bytes and stalled nanoseconds at one moment; two of them make a rate.
struct StatusSample {
  std::chrono::steady_clock::time_point when;
  Stats stats;
};

// What the line needs to know of the run.
struct StatusContext {
  bool on_device = false;          // memory is a GPU's
  const JobServer* job = nullptr;  // knows the budget of all processes together; null: it is that of the one
  double disk_read_bps = 0;        // as `ebb calibrate` measured it; 0: not known, or not what is fetched from
};

// The parts of the line, most important first; those that do not fit a narrow terminal are left out from the end.
std::vector<std::string> status_parts(const StatsReading& reading, const StatusSample& from, const StatusSample& to,
                                      const StatusContext& context);

class StatusLine : public ChildObserver {
 public:
  // `fd` is one that draws().
  StatusLine(int fd, std::string stats_path, const StatusContext& context);
  ~StatusLine() override;
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  void tick() override;
  void resized() override;
  void suspended() override;
  void resumed() override;

 private:
  void reserve();
  void restore();
  void draw();
  std::string compose();
  bool in_foreground() const;
  void send(const std::string& sequence) const;

  const int fd_;
  const std::string stats_path_;
  const StatusContext context_;
  const bool colour_;
  const std::chrono::steady_clock::time_point start_;
  std::deque<StatusSample> samples_;  // of the last second
  int rows_ = 0;                      // of the terminal when the region was set
  int columns_ = 0;
  bool reserved_ = false;  // the scroll region is set
};

}  // namespace ebb::cli
