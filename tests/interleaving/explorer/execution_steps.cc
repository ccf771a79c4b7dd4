// See execution.h: accesses to memory.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "interleaving/explorer/execution.h"

namespace ebb::interleaving {
namespace {

constexpr const void* kSequentialFence = nullptr;  // stands for it among places: it makes others of all that are so
constexpr std::uint32_t kLooks = 2;                // without news, before a loop is one that waits

bool of_memory(Kind kind) { return kind < Kind::kFence; }

std::uint64_t newest(const Operation& operation) {
  std::uint64_t value = 0;
  std::memcpy(&value, operation.object, operation.bytes);
  return value;
}

void write(const Operation& operation, std::uint64_t value) {
  std::memcpy(const_cast<void*>(operation.object), &value, operation.bytes);
}

}  // namespace

// Whether it has been here twice, and has found nothing new since.
bool Execution::visited(const Operation& operation) {
  Thread& mine = self();
  for (Visit& visit : mine.visits) {
    if (visit.site != operation.site || visit.object != operation.object) continue;
    if (visit.progress == mine.progress) return ++visit.times > kLooks;
    visit.progress = mine.progress;
    visit.times = 1;
    return false;
  }
  mine.visits.push_back({operation.site, operation.object, mine.progress, 1});
  return false;
}

// Those that are asleep were tried before what has just been done; where the order of the two matters, that is another
// execution. A load is asleep by its values, so a store makes no difference to it but the value that it adds.
void Execution::wake_dependents(const Operation& done) {
  for (std::size_t i = 1; i < count_; ++i) {
    Thread& there = threads_[i];
    if (i == current_ || there.asleep == 0) continue;
    const Operation& next = there.pending;
    const bool both_sequential = next.sequential() && done.sequential();
    const bool fences = next.kind == Kind::kFence || done.kind == Kind::kFence;
    bool dependent = both_sequential && fences;
    if (next.object == done.object && !fences) {
      const bool reads = next.kind == Kind::kLoad, read = done.kind == Kind::kLoad;
      // Of sequentially consistent loads the later one reads nothing older.
      dependent =
          !of_memory(next.kind) || (reads ? both_sequential && done.kind != Kind::kStore : !read || both_sequential);
    }
    if (dependent) there.asleep = 0;
  }
}

void Execution::ordered(Operation& operation) {
  const bool strong = operation.order != std::memory_order_relaxed;
  const auto same = [&](const Site& site) { return site.address == operation.site; };
  if (strong && std::none_of(findings_.sites.begin(), findings_.sites.end(), same)) {
    findings_.sites.push_back({operation.site, operation.kind, operation.order});
  }
  if (operation.site == options_.weakened) operation.order = options_.weakened_to;
}

void Execution::made_progress(bool written) {
  ++self().progress;
  forced_ = 0;
  if (written) ++writes_;
}

// Which of the values that the thread may read; newest first.
std::uint32_t Execution::pick_value(const Operation& operation, std::uint32_t asleep, Change change,
                                    std::uint64_t operand, std::uint64_t expected) {
  const std::uint32_t newest = model_.values(operation.object, operation.bytes) - 1;
  const std::uint32_t oldest =
      std::max(model_.oldest_visible(current_, operation.object, operation.bytes, operation.order), asleep);
  const bool newest_only = std::exchange(self().newest_only, false);
  if (free_ || newest_only || oldest >= newest) return newest;
  std::vector<std::uint32_t> choices{newest};
  for (std::uint32_t i = newest; i-- > oldest;) {
    std::uint64_t value = model_.value(operation.object, operation.bytes, i);
    if (change == nullptr || !change(value, operand, expected)) choices.push_back(i);
  }
  return choices[choices_.next(choices.size())];
}

void Execution::note(const Operation& operation, std::uint64_t value, std::uint32_t behind) {
  steps_.push_back({current_, operation, value, behind});
  if (operation.kind != Kind::kFence) {
    note_use(operation);
  } else if (operation.sequential()) {
    findings_.contended.insert(kSequentialFence);
  }
}

bool Execution::is_contended(const Operation& operation) const {
  if (operation.sequential() && findings_.contended.contains(kSequentialFence)) return true;
  return findings_.contended.contains(operation.site);
}

void Execution::note_use(const Operation& operation) {
  if (options_.random > 0) return;
  const Use mine{current_, operation.kind != Kind::kLoad || operation.sequential(), operation.site};
  std::vector<Use>& uses = uses_[operation.object];
  if (std::find(uses.begin(), uses.end(), mine) != uses.end()) return;
  for (const Use& use : uses) {
    if (use.thread == mine.thread || !(use.writes || mine.writes)) continue;
    findings_.contended.insert(use.site);
    findings_.contended.insert(mine.site);
  }
  uses.push_back(mine);
}

std::uint64_t Execution::load(Operation operation) {
  const Unwatched unwatched;
  ordered(operation);
  arrive(operation);
  if (options_.newest_only) {
    note(operation, newest(operation), 0);
    return newest(operation);
  }
  race_unless(model_.access(current_, operation.object, operation.bytes, MemoryModel::Access::kAtomicRead),
              operation.object);
  const std::uint32_t asleep = std::exchange(self().asleep, 0);
  const std::uint32_t at = pick_value(operation, asleep == kAll ? 0 : asleep, nullptr, 0, 0);
  const std::uint64_t value = model_.value(operation.object, operation.bytes, at);
  note(operation, value, model_.values(operation.object, operation.bytes) - 1 - at);
  if (model_.load(current_, operation.object, operation.bytes, at, operation.order)) made_progress(false);
  wake_dependents(operation);
  return value;
}

void Execution::store(Operation operation, std::uint64_t value) {
  const Unwatched unwatched;
  ordered(operation);
  arrive(operation);
  if (options_.newest_only) {
    note(operation, value, 0);
    write(operation, value);
    return made_progress(true);
  }
  self().asleep = 0;
  race_unless(model_.access(current_, operation.object, operation.bytes, MemoryModel::Access::kAtomicWrite),
              operation.object);
  note(operation, value, 0);
  model_.store(current_, const_cast<void*>(operation.object), operation.bytes, value, operation.order);
  made_progress(true);
  wake_dependents(operation);
}

Updated Execution::update(Operation operation, Change change, std::uint64_t operand, std::uint64_t expected,
                          std::memory_order failed) {
  const Unwatched unwatched;
  ordered(operation);
  if (operation.site == options_.weakened) failed = std::memory_order_relaxed;
  arrive(operation);
  Updated updated;
  if (options_.newest_only) {
    std::uint64_t value = updated.before = newest(operation);
    updated.changed = change(value, operand, expected);
    note(operation, value, 0);
    if (updated.changed) write(operation, value);
    made_progress(updated.changed);
    return updated;
  }
  self().asleep = 0;
  const std::uint32_t at = pick_value(operation, 0, change, operand, expected);
  updated.before = model_.value(operation.object, operation.bytes, at);
  std::uint64_t value = updated.before;
  const std::uint32_t behind = model_.values(operation.object, operation.bytes) - 1 - at;
  updated.changed = behind == 0 && change(value, operand, expected);
  note(operation, value, behind);
  using Access = MemoryModel::Access;
  const Access kind = updated.changed ? Access::kAtomicWrite : Access::kAtomicRead;
  race_unless(model_.access(current_, operation.object, operation.bytes, kind), operation.object);
  if (updated.changed) {
    model_.update(current_, const_cast<void*>(operation.object), operation.bytes, value, operation.order);
    made_progress(true);
  } else if (model_.load(current_, operation.object, operation.bytes, at, failed)) {
    made_progress(false);
  }
  wake_dependents(operation);
  return updated;
}

void Execution::fence(Operation operation) {
  const Unwatched unwatched;
  ordered(operation);
  if (operation.order == std::memory_order_relaxed) return;
  arrive(operation);
  self().asleep = 0;
  note(operation, 0, 0);
  model_.fence(current_, operation.order);
  wake_dependents(operation);
}

void Execution::access(const void* address, std::size_t bytes, bool write) {
  if (!options_.races) return;
  const Unwatched unwatched;
  using Access = MemoryModel::Access;
  race_unless(model_.access(current_, address, bytes, write ? Access::kWrite : Access::kRead), address);
}

void Execution::race_unless(bool ordered, const void* address) {
  if (ordered) return;
  char text[64];
  std::snprintf(text, sizeof text, "data race at %p", address);
  fail(text);
}

}  // namespace ebb::interleaving
