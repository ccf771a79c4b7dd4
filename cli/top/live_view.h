// LiveView: what is on the screen of `ebb top`, and what its keys change of it. Knows no terminal. Main thread.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <vector>

#include "top/activity.h"
#include "top/keys.h"
#include "top/top_table.h"

namespace ebb::cli {

class LiveView {
 public:
  explicit LiveView(double interval_seconds) : interval_seconds_(interval_seconds) {}

  // False: it asks for the end.
  bool press(const Key& key);
  // The lines of a screen of this size.
  std::vector<Line> compose(const Activity& activity, std::size_t rows, std::size_t columns);

 private:
  void select(std::ptrdiff_t by);
  void sort_by(Column column);
  void add_runs(const Activity& activity, std::size_t most, std::vector<Line>& lines) const;
  void add_processes(std::vector<Line> processes, std::size_t most, std::vector<Line>& lines);

  const double interval_seconds_;
  SortOrder order_;
  bool help_ = false;
  std::vector<pid_t> shown_;  // in the order of the table
  pid_t selected_ = 0;
  std::size_t first_ = 0;  // of the table that is on the screen
  std::size_t page_ = 1;
};

}  // namespace ebb::cli
