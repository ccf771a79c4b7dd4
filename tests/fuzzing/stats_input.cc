// libFuzzer: any bytes as the statistics page of a program that has ended: a third of them where it begins, a third as
// its waits, the last as its time line. There are none, or all that `ebb run` tells of a run is told.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "cli/json_text.h"
#include "cli/run/report/report_data.h"
#include "cli/run/report/trace_events.h"
#include "cli/run/scratch_directory.h"
#include "cli/run/stats_reader.h"
#include "cli/run/summary.h"
#include "ebb/stats_page.h"

namespace {

class Page {
 public:
  Page() : file_(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    if (file_ < 0) std::abort();
  }

  void write(const std::uint8_t* data, std::size_t size) const {
    const std::size_t third = size / 3;
    put(data, std::min(third, offsetof(ebb::StatsPage, step_seconds)), 0);
    put(data + third, std::min(third, sizeof(ebb::WaitTable)), offsetof(ebb::StatsPage, waits));
    put(data + 2 * third, std::min(size - 2 * third, sizeof(ebb::RunTimeline)), offsetof(ebb::StatsPage, timeline));
    if (::ftruncate(file_, sizeof(ebb::StatsPage)) != 0) std::abort();
  }
  const std::string& path() const { return path_; }

 private:
  void put(const std::uint8_t* data, std::size_t bytes, std::size_t offset) const {
    if (::ftruncate(file_, static_cast<off_t>(offset)) != 0) std::abort();
    if (::pwrite(file_, data, bytes, static_cast<off_t>(offset)) != static_cast<ssize_t>(bytes)) std::abort();
  }

  const ebb::cli::ScratchDirectory directory_;
  const std::string path_ = directory_.file("stats");
  const int file_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Page page;
  page.write(data, size);
  static_cast<void>(ebb::cli::read_stats(page.path()));
  const auto reading = ebb::cli::read_final_stats(page.path());
  if (!reading) return 0;
  ebb::cli::RunAccount account;
  account.command = {"program"};
  account.managed = true;
  account.policy = reading->policy;
  account.description = reading->description;
  account.stats = reading->stats;
  account.step_count = reading->step_count;
  account.step_seconds = ebb::cli::read_step_seconds(page.path());
  account.steps_fetched_bytes = reading->steps_fetched_bytes;
  account.waits = reading->waits;
  static_cast<void>(ebb::cli::json_line(ebb::cli::summary_json(account)));
  static_cast<void>(ebb::cli::summary_table(account, true));
  static_cast<void>(ebb::cli::json_line(ebb::cli::report_json(account, page.path(), "")));
  if (const auto timeline = ebb::cli::read_timeline(page.path())) {
    static_cast<void>(ebb::cli::json_line(ebb::cli::trace_events(account, *timeline)));
  }
  return 0;
}
