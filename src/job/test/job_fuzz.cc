// job_fuzz: a broker and members that obey late, in parts, not at all, or lie in their reports; that come, need, die.
// The budget changes in between. After every message: what the honest and the slow may really use together with what
// the others were last granted is within the budget, or, after it was lowered, within what that comes down to. In the
// end those that obey reach a budget that holds their least. Each run is done twice and must end the same.
//
//   job_fuzz --seed 1 --runs 200
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>

#include "base/check.h"
#include "base/rng.h"
#include "job/broker.h"

namespace ebb {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kFlash = 100 * kPage;
constexpr std::uint64_t kPagesMost = 4096;
constexpr int kRoundsToObey = 100;

// One member as it is: what it was told and has not read, what it said that has not arrived, what it really holds.
struct Process {
  std::deque<JobBroker::Order> inbox;
  std::deque<JobBroker::Report> outbox;
  std::uint64_t least = 0;
  std::uint64_t target = 0;
  std::uint64_t holds = 0;
  std::uint64_t serial = 0;
  bool lies = false;  // its reports are noise, but it never takes more than it was given
  bool silent = false;
};

class FuzzJob {
 public:
  explicit FuzzJob(std::uint64_t seed)
      : rng_(seed),
        budget_(rng_.between(1, kPagesMost) * kPage),
        ceiling_(budget_),
        broker_(budget_, rng_.chance(1, 3) ? JobBroker::Share::kEqual : JobBroker::Share::kStalls, kFlash) {}

  std::uint64_t run() {
    for (int step = 0; step < 2000; ++step) {
      operation();
      deliver();
      check();
    }
    obey();
    while (!processes_.empty()) die(processes_.begin()->first);
    EBB_CHECK_EQ(broker_.committed_bytes(), 0u);
    return hash_;
  }

 private:
  Process* any(JobBroker::Id& id) {
    if (processes_.empty()) return nullptr;
    auto it = processes_.begin();
    std::advance(it, static_cast<std::ptrdiff_t>(rng_.below(processes_.size())));
    id = it->first;
    return &it->second;
  }

  void operation() {
    JobBroker::Id id = 0;
    Process* const process = any(id);
    const std::uint64_t dice = rng_.below(100);
    if (process == nullptr || (dice < 4 && processes_.size() < 40)) return come();
    if (dice < 6) return die(id);
    if (dice < 10) return broker_.need(id);
    if (dice < 12) return broker_.need_flash(id, rng_.chance(1, 8) ? rng_.next() : rng_.below(kFlash));
    if (dice < 14) return change_budget(rng_.chance(1, 8) ? rng_.below(kPagesMost * kPage) : near_budget());
    if (dice < 30) return broker_.tick();
    if (dice < 55) return read(*process);
    if (dice < 75) return say(*process);
    if (process->outbox.empty()) return;
    broker_.report(id, process->outbox.front());
    process->outbox.pop_front();
  }

  std::uint64_t near_budget() { return budget_ - budget_ / 8 + rng_.below(budget_ / 4 + 1); }

  void change_budget(std::uint64_t bytes) {
    budget_ = bytes;
    ceiling_ = std::max(budget_, ceiling_);
    broker_.set_budget(bytes);
  }

  // Who is left does what it is told, and a smaller budget than before is reached.
  void obey() {
    std::erase_if(processes_, [this](const auto& entry) {
      const bool bad = entry.second.lies || entry.second.silent;
      if (bad) broker_.leave(entry.first);
      return bad;
    });
    change_budget(budget_ / 2);
    for (int round = 0; round < kRoundsToObey; ++round) {
      deliver();
      for (auto& [id, process] : processes_) {
        while (!process.inbox.empty()) read(process);
        process.holds = std::min(process.holds, process.target);
        for (; !process.outbox.empty(); process.outbox.pop_front()) broker_.report(id, process.outbox.front());
        broker_.report(id, {process.serial, process.holds, process.holds, process.least, 0, false});
      }
      broker_.tick();
      deliver();
      check();
    }
    const std::uint64_t within = std::max(budget_, broker_.least_bytes());
    EBB_CHECK_LE(broker_.committed_bytes(), within);
  }

  void come() {
    Process process;
    process.least = rng_.below(budget_ / 4 + 1);
    process.lies = rng_.chance(1, 8);
    process.silent = rng_.chance(1, 16);
    JobBroker::Facts facts;
    facts.least_bytes = process.least;
    facts.most_bytes = rng_.chance(3, 4) ? budget_ : rng_.below(2 * budget_);
    if (rng_.chance(1, 2)) {
      facts.rank = static_cast<std::int32_t>(rng_.below(4));
      facts.ranks = static_cast<std::uint32_t>(rng_.below(6));
    }
    broker_.join(next_, facts);
    processes_[next_++] = process;
  }

  void die(JobBroker::Id id) {
    processes_.erase(id);
    broker_.leave(id);
  }

  // Its next order; more is its own from then on, less takes it a while.
  void read(Process& process) {
    if (!process.inbox.empty() && !process.silent) {
      const JobBroker::Order order = process.inbox.front();
      process.inbox.pop_front();
      if (order.refused) return;
      process.serial = order.serial;
      process.target = order.bytes;
      process.holds = std::max(process.holds, process.target);
    }
    if (process.holds > process.target) process.holds -= rng_.below(process.holds - process.target + 1);
  }

  void say(Process& process) {
    if (process.silent) return;
    JobBroker::Report report;
    report.serial = process.serial;
    report.held_bytes = process.holds;
    report.resident_bytes = rng_.below(process.holds + 1);
    report.least_bytes = process.least;
    report.stall_permille = static_cast<std::uint32_t>(rng_.below(1200));
    report.stuck = rng_.chance(1, 8);
    if (report.stuck) process.target = process.holds;  // the next order says the same
    if (process.lies) {
      // What it says of itself may be anything, but for what it holds: who says less than that breaks its own promise.
      report.resident_bytes = rng_.next();
      report.least_bytes = rng_.next();
      report.held_bytes += rng_.chance(1, 2) ? rng_.below(1 << 20) : 0;
      report.stall_permille = static_cast<std::uint32_t>(rng_.next());
    }
    process.outbox.push_back(report);
  }

  void deliver() {
    for (const JobBroker::Order& order : broker_.take_orders()) {
      hash_ = (hash_ ^ (order.bytes + order.id + order.serial)) * 0x9e3779b97f4a7c15ull;
      const auto found = processes_.find(order.id);
      if (found != processes_.end() && !order.flash) found->second.inbox.push_back(order);
    }
  }

  void check() {
    broker_.validate();
    ceiling_ = std::max(budget_, std::min(ceiling_, broker_.committed_bytes()));
    std::uint64_t sum = 0;
    for (const auto& [id, process] : processes_) {
      std::uint64_t most = process.holds;
      for (const JobBroker::Order& order : process.inbox) most = std::max(most, order.bytes);
      EBB_CHECK_LE(most, broker_.members().at(id).held);
      sum += most;
    }
    EBB_CHECK_LE(sum, ceiling_);
  }

  Rng rng_;
  std::uint64_t budget_;
  std::uint64_t ceiling_;
  JobBroker broker_;
  std::map<JobBroker::Id, Process> processes_;
  JobBroker::Id next_ = 1;
  std::uint64_t hash_ = 0;
};

std::uint64_t number(const char* text) {
  char* end = nullptr;
  const std::uint64_t value = std::strtoull(text, &end, 10);
  if (*text >= '0' && *text <= '9' && *end == '\0') return value;
  std::fprintf(stderr, "job_fuzz: not a number: '%s'\n", text);
  std::exit(2);
}

int run(std::uint64_t seed, std::uint64_t runs) {
  std::printf("seed %" PRIu64 ", %" PRIu64 " runs\n", seed, runs);
  std::fflush(stdout);
  for (std::uint64_t i = seed; i < seed + runs; ++i) {
    std::printf("%s%" PRIu64 "%s", i == seed ? "at " : " ", i, i + 1 == seed + runs ? "\n" : "");
    std::fflush(stdout);
    if (FuzzJob(i).run() == FuzzJob(i).run()) continue;
    std::fprintf(stderr, "job_fuzz: seed %" PRIu64 " came to two different ends\n", i);
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace ebb

int main(int argc, char** argv) {
  std::uint64_t seed = 1;
  std::uint64_t runs = 100;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--seed") == 0) {
      seed = ebb::number(argv[i + 1]);
    } else if (std::strcmp(argv[i], "--runs") == 0) {
      runs = ebb::number(argv[i + 1]);
    } else {
      std::fprintf(stderr, "job_fuzz: unknown option '%s'\nusage: job_fuzz [--seed N] [--runs N]\n", argv[i]);
      return 2;
    }
  }
  return ebb::run(seed, runs);
}
