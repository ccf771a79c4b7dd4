// See campaign.h.
#include "fuzz/campaign.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <type_traits>

#include "drivers/linux/system/system_files.h"
#include "ebb/status.h"
#include "sim/fuzz/fuzz_draw.h"
#include "sim/fuzz/shrink.h"
#include "text.h"

namespace ebb::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kTriesMax = 3000;
constexpr auto kLook = std::chrono::milliseconds(200);

static_assert(std::is_trivially_copyable_v<FuzzRecord> && sizeof(FuzzRecord) <= 4096);  // one write to a pipe

volatile sig_atomic_t g_interrupted = 0;

// Ctrl-C ends what is under way, once; a second one ends `ebb`.
class InterruptionScope {
 public:
  InterruptionScope() {
    struct sigaction action {};
    action.sa_handler = [](int) { g_interrupted = 1; };
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    ::sigaction(SIGINT, &action, &before_);
  }
  ~InterruptionScope() { ::sigaction(SIGINT, &before_, nullptr); }
  InterruptionScope(const InterruptionScope&) = delete;
  InterruptionScope& operator=(const InterruptionScope&) = delete;

 private:
  struct sigaction before_ {};
};

class Runner {
 public:
  explicit Runner(Campaign& campaign) : campaign_(campaign) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw Error(Status::kNoMemory, "no pipe for the results can be made");
    results_ = FileDescriptor(ends[0]);
    to_results_ = FileDescriptor(ends[1]);
    ::fcntl(results_.get(), F_SETFL, O_NONBLOCK);
  }

  void run() {
    Child child(history_, [this] { return work(); });
    const auto start = Clock::now();
    bool over = false;
    for (bool talks = true; talks && !over;) {
      pollfd wait[]{{child.errors(), POLLIN, 0}, {results_.get(), POLLIN, 0}};
      static_cast<void>(::poll(wait, 2, static_cast<int>(kLook.count())));
      talks = child.read_errors();
      const auto now = Clock::now();
      take_results();
      campaign_.seconds = std::chrono::duration<double>(now - start).count();
      campaign_.interrupted = g_interrupted != 0;
      over = campaign_.interrupted || now - start >= campaign_.time;
      progress_.show(fmt::format("{} operations, {} seeds, {:.0f} s", campaign_.all.operations, campaign_.seeds,
                                 campaign_.seconds));
    }
    progress_.clear();
    if (over) return child.kill();
    const Verdict verdict = child.verdict();
    take_results();
    if (!verdict.failed) return;
    campaign_.failure = Failure{"", campaign_.seed + campaign_.seeds, verdict, {}, 0};
  }

 private:
  // In the child.
  int work() {
    for (std::uint64_t i = 0; i < campaign_.seeds_max; ++i) {
      FuzzRecord record;
      const int code = run_twice(draw_scenario(campaign_.seed + i, campaign_.operations), history_, &record);
      if (code != 0) return code;
      const std::string_view bytes(reinterpret_cast<const char*>(&record), sizeof record);
      if (!write_all(to_results_.get(), bytes)) return 1;
    }
    return 0;
  }

  void take_results() {
    FuzzRecord record;
    while (::read(results_.get(), &record, sizeof record) == sizeof record) {
      campaign_.all.add(record.outcome);
      ++campaign_.seeds;
    }
  }

  Campaign& campaign_;
  FuzzHistory history_;
  FileDescriptor results_, to_results_;
  ProgressLine progress_{kLook, kLook};
};

}  // namespace

void run_campaign(Campaign& campaign) {
  const InterruptionScope scope;
  Runner(campaign).run();
  if (!campaign.failure) return;
  shorten(*campaign.failure, draw_scenario(campaign.failure->seed, campaign.operations));
}

void shorten(Failure& failure, const Scenario& scenario) {
  ProgressLine progress(kLook, kLook);
  std::uint32_t tries = 0;
  const auto fails = [&](const Scenario& candidate) {
    if (g_interrupted != 0) return false;
    progress.show(fmt::format("{}: made short, {} tries, {} operations", failure.verdict.what, ++tries,
                              candidate.operations.size()));
    const Verdict verdict = run_isolated(candidate);
    return verdict.failed && verdict.what == failure.verdict.what;
  };
  // One that hangs takes long each time.
  const Shrunk shrunk = shrink(scenario, fails, failure.verdict.what == "hangs" ? 20 : kTriesMax);
  failure.shortest = shrunk.scenario;
  failure.tries = shrunk.tries;
  const Verdict again = run_isolated(shrunk.scenario);
  if (again.failed) failure.verdict = again;
}

}  // namespace ebb::cli
