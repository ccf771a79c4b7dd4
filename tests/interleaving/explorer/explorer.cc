// See explorer.h.
#include "interleaving/explorer/explorer.h"

#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>

#include "interleaving/explorer/execution.h"

namespace ebb::interleaving {
namespace {

Execution* g_execution = nullptr;            // the one that runs, or whose end is looked at
std::vector<const std::uint64_t*> g_shared;  // of it

// One thread runs at a time, and hands over fastest on the same processor.
class OneProcessor {
 public:
  OneProcessor() {
    ::sched_getaffinity(0, sizeof before_, &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(::sched_getcpu()), &one);
    ::sched_setaffinity(0, sizeof one, &one);
  }
  ~OneProcessor() { ::sched_setaffinity(0, sizeof before_, &before_); }

 private:
  cpu_set_t before_{};
};

struct FailedCheck : std::runtime_error {
  using std::runtime_error::runtime_error;
};

void run_once(const std::function<Scenario()>& make, const Options& options, Choices& choices, Findings& findings) {
  auto execution = std::make_unique<Execution>(options, choices, findings);
  g_execution = execution.get();
  g_shared.clear();
  auto scenario = std::make_unique<Scenario>(make());
  const bool ended = execution->run(*scenario);
  if (!ended) {
    // What its threads still look at stays.
    static_cast<void>(execution.release());
    static_cast<void>(scenario.release());
  } else if (scenario->end && findings.failure.empty()) {
    try {
      scenario->end();
    } catch (const FailedCheck& failed) {
      execution->fail(failed.what());
    }
  }
  g_execution = nullptr;
}

std::vector<std::memory_order> weaker(const Site& site) {
  switch (site.order) {
    case std::memory_order_seq_cst:
      if (site.kind == Kind::kLoad) return {std::memory_order_acquire};
      if (site.kind == Kind::kStore) return {std::memory_order_release};
      return {std::memory_order_acq_rel};
    case std::memory_order_acq_rel: return {std::memory_order_acquire, std::memory_order_release};
    default: return {std::memory_order_relaxed};
  }
}

}  // namespace

Findings explore(const std::function<Scenario()>& make, const Options& options) {
  const OneProcessor processor;
  Findings findings;
  Choices choices;
  if (options.random > 0) choices.by_lot(options.seed);
  const std::uint64_t limit = options.random > 0 ? options.random : options.executions_max;
  bool more = true;
  while (more && findings.failure.empty() && findings.executions < limit) {
    const std::size_t contended = findings.contended.size();
    run_once(make, options, choices, findings);
    if (options.random == 0 && findings.contended.size() > contended) {
      choices = {};
      findings.executions = findings.cut = 0;
    } else {
      more = choices.advance();
    }
  }
  findings.all = !more;
  return findings;
}

std::vector<Weakening> weaken_each(const std::function<Scenario()>& make,
                                   const std::function<bool(const Site&)>& which) {
  std::vector<Weakening> weakenings;
  for (const Site& site : explore(make).sites) {
    if (!which(site)) continue;
    for (const std::memory_order order : weaker(site)) {
      Options options;
      options.weakened = site.address;
      options.weakened_to = order;
      weakenings.push_back({site, order, explore(make, options)});
    }
  }
  return weakenings;
}

void require(bool holds, const char* what) {
  if (!holds && g_execution != nullptr) g_execution->fail(what);
}

void same_as_another() {
  if (g_execution != nullptr) g_execution->cut();
}

void share(const void* word) { g_shared.push_back(static_cast<const std::uint64_t*>(word)); }

std::uint64_t on_load(const void* object, std::size_t bytes, std::memory_order order, const void* site) {
  return current_execution()->load({Kind::kLoad, order, object, bytes, site});
}

void on_store(void* object, std::size_t bytes, std::uint64_t value, std::memory_order order, const void* site) {
  current_execution()->store({Kind::kStore, order, object, bytes, site}, value);
}

Updated on_update(void* object, std::size_t bytes, Change change, std::uint64_t operand, std::uint64_t expected,
                  std::memory_order order, std::memory_order failed, const void* site) {
  return current_execution()->update({Kind::kUpdate, order, object, bytes, site}, change, operand, expected, failed);
}

void on_fence(std::memory_order order, const void* site) {
  current_execution()->fence({Kind::kFence, order, nullptr, 0, site});
}

void on_access(const void* address, std::size_t bytes, bool write) {
  current_execution()->access(address, bytes, write);
}

// Word by word where words are shared; the rest, which nobody else looks at, comes last.
void on_copy(void* to, const void* from, std::size_t bytes, const void* site) {
  struct Word {
    const std::uint64_t* shared;
    std::size_t at;
    std::uint64_t value;
  };
  const auto begin_to = reinterpret_cast<std::uintptr_t>(to), begin_from = reinterpret_cast<std::uintptr_t>(from);
  std::vector<Word> read, written;
  for (const std::uint64_t* const shared : g_shared) {
    const auto word = reinterpret_cast<std::uintptr_t>(shared);
    if (word - begin_from < bytes) read.push_back({shared, word - begin_from, 0});
    if (word - begin_to >= bytes) continue;
    written.push_back({shared, word - begin_to, 0});
    const Beforehand unwatched;
    std::memcpy(&written.back().value, static_cast<const char*>(from) + written.back().at, sizeof *shared);
  }
  if (read.empty() && written.empty()) {
    on_access(from, bytes, false);
    on_access(to, bytes, true);
  }
  for (Word& word : read) word.value = on_load(word.shared, sizeof *word.shared, std::memory_order_relaxed, site);
  for (const Word& word : written) {
    on_store(const_cast<std::uint64_t*>(word.shared), sizeof *word.shared, word.value, std::memory_order_relaxed, site);
  }
  const Beforehand unwatched;
  std::memcpy(to, from, bytes);
  for (const Word& word : read) std::memcpy(static_cast<char*>(to) + word.at, &word.value, sizeof word.value);
}

void on_free(const void* address, std::size_t bytes) { current_execution()->forget(address, bytes); }
std::uint64_t on_spawn(void* (*body)(void*), void* argument) { return current_execution()->spawn(body, argument); }
void on_join(std::uint64_t handle, const void* site) { current_execution()->join(handle, site); }
bool on_wait(const void* condition, const void* mutex, std::uint64_t until_ns, const void* site) {
  return current_execution()->wait(condition, mutex, until_ns, site);
}
void on_notify(const void* condition, bool all, const void* site) { current_execution()->notify(condition, all, site); }
void on_yield(const void* site) { current_execution()->yield(site); }
std::uint64_t on_clock() { return current_execution()->now_ns(); }
void on_lock(const void* mutex, const void* site) { current_execution()->lock(mutex, site); }
bool on_try_lock(const void* mutex, const void* site) { return current_execution()->try_lock(mutex, site); }
void on_unlock(const void* mutex, const void* site) { current_execution()->unlock(mutex, site); }

void on_failed_check(const char* what) {
  if (Execution* const execution = current_execution()) {
    execution->fail(what);
    execution->stop_for_ever();
  }
  if (g_execution != nullptr) throw FailedCheck(what);
  std::abort();
}

}  // namespace ebb::interleaving
