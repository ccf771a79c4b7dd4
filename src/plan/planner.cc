// See planner.h.
#include "plan/planner.h"

#include <algorithm>
#include <set>
#include <utility>

namespace ebb {
namespace {

using Position = Recording::Position;

constexpr std::uint64_t kNeverAgain = ~0ull;
// A fetch is begun this much earlier than its lane needs, as a share of the time between, and as a number of blocks.
constexpr double kMarginShare = 0.25;
constexpr double kMarginBlocks = 16;
// An absence goes to flash if the lane is free within the time that it takes for so many blocks; if too few are, twice.
constexpr double kPatienceBlocks = 256;
// What returns claims its room for as long as its own transfer takes, and that of so many blocks before it.
constexpr double kAloneBlocks = 64;
constexpr int kRounds = 3;

class Planner {
 public:
  Planner(const Recording& recording, const PlanLimits& limits)
      : recording_(recording),
        limits_(limits),
        size_(recording.size()),
        bytes_max_(limits.block_bytes * limits.frames),
        small_(limits.block_bytes),
        items_(recording.references()) {}

  Plan make() {
    link();
    // What returns needs its frames before it is used. How long before is known only from a plan, so there are some.
    early_.resize(size_);
    for (int round = 0; round < kRounds; ++round) {
      begin();
      for (const bool steady : {false, true}) run(steady);
      finish();
      choose_tiers();
      schedule();
    }
    return std::move(plan_);
  }

 private:
  struct Item {
    std::uint64_t bytes = 0;
    std::uint64_t present = 0;
    bool live = false;
    bool carried = false;                        // existed before the iteration
    bool returning = false;                      // on its way back: not to be sent away before its use
    std::uint32_t successor = Recording::kNone;  // what it is called in the next iteration, if it lives on
    std::uint32_t use = Plan::kStays;            // the latest use
    std::uint64_t next = kNeverAgain;            // the event of its next use, in both iterations' count
  };

  void link();
  void run(bool steady);
  void begin();
  void begin_iteration();
  void return_early(Position position, bool steady);
  void launch(Position position, bool steady);
  std::uint64_t first_use(std::uint32_t reference) const;
  void shrink(bool steady);
  void queue(std::uint32_t reference);
  void unqueue(std::uint32_t reference);
  void finish();
  std::vector<std::uint64_t> present_bytes() const;
  void choose_tiers();
  void schedule();
  void claim_early(const std::vector<std::uint32_t>& order, const std::vector<double>& start_ns,
                   const std::vector<double>& lead_ns);
  double duration_ns(Position position) const;
  double block_ns(Tier tier) const { return tier == Tier::kHost ? limits_.host_in_ns : limits_.flash_in_ns; }
  // In blocks, of which a small tensor is a part.
  double blocks_of(const Plan::Absence& absence) const {
    return static_cast<double>(absence.bytes) / static_cast<double>(limits_.block_bytes);
  }
  template <typename F>
  void for_events_of(const Plan::Absence& absence, F&& visit) const {
    for (std::uint64_t i = absence.after + std::uint64_t{1}; i < absence.before; ++i) {
      visit(static_cast<Position>(i < size_ ? i : i - size_));
    }
  }

  const Recording& recording_;
  const PlanLimits limits_;
  const Position size_;
  const std::uint64_t bytes_max_;
  const std::uint64_t small_;
  std::vector<Item> items_;
  std::vector<std::vector<std::pair<std::uint32_t, std::uint32_t>>> early_;  // by event: uses, and their tensors then
  std::vector<std::uint32_t> references_;                                    // by use
  std::vector<std::uint64_t> next_;                         // by use: the event of the next use of the same tensor
  std::set<std::pair<std::uint64_t, std::uint32_t>> idle_;  // present tensors by next use
  std::uint64_t present_ = 0;
  std::vector<std::uint64_t> live_bytes_;  // by event, in the steady iteration
  std::uint64_t live_ = 0;
  Plan plan_;
};

// The next use of every use, across the end of the iteration.
void Planner::link() {
  for (std::uint32_t i = 0; i < items_.size(); ++i) {
    const Recording::Reference& reference = recording_.reference(i);
    Item& item = items_[i];
    item.bytes = reference.bytes;
    item.carried = reference.serial < recording_.start();
    if (item.carried) {
      item.successor = i;  // unless it is freed
    } else {
      const std::uint64_t counted = recording_.previous_start() + (reference.serial - recording_.start());
      if (counted < recording_.start()) item.successor = recording_.find(counted);
    }
  }
  for (Position position = 0; position < size_; ++position) {
    const Recording::Event& event = recording_.event(position);
    if (event.kind == Recording::Kind::kFree) items_[event.reference].successor = Recording::kNone;
  }
  std::vector<std::uint64_t> upcoming(items_.size(), kNeverAgain);
  next_.assign(recording_.uses_total(), kNeverAgain);
  references_.assign(recording_.uses_total(), 0);
  for (Position position = size_; position-- > 0;) {
    const Recording::Event& event = recording_.event(position);
    const auto uses = recording_.uses(event);
    for (std::uint32_t i = 0; i < uses.size(); ++i) {
      next_[event.first_use + i] = upcoming[uses[i].reference];
      references_[event.first_use + i] = uses[i].reference;
    }
    for (const Recording::Use& use : uses) upcoming[use.reference] = position;
  }
  for (Position position = 0; position < size_; ++position) {
    const Recording::Event& event = recording_.event(position);
    for (std::uint32_t i = 0; i < recording_.uses(event).size(); ++i) {
      std::uint64_t& next = next_[event.first_use + i];
      const std::uint32_t successor = items_[recording_.uses(event)[i].reference].successor;
      if (next != kNeverAgain || successor == Recording::kNone || upcoming[successor] == kNeverAgain) continue;
      next = size_ + upcoming[successor];
    }
  }
}

// Everything that existed before is there, as far as is known.
void Planner::begin() {
  idle_.clear();
  present_ = live_ = 0;
  for (std::uint32_t i = 0; i < items_.size(); ++i) {
    Item& item = items_[i];
    item.live = item.carried;
    item.present = item.carried ? item.bytes : 0;
    item.use = Plan::kStays;
    item.returning = false;
    item.next = first_use(i);
    present_ += item.present;
    live_ += item.present;
    if (item.live) queue(i);
  }
}

// Tensors whose fetch begins at this event, by the plan made before.
void Planner::return_early(Position position, bool steady) {
  for (const auto& [use, reference] : early_[position]) {
    Item& item = items_[reference];
    if (!item.live || item.use != use || item.present == item.bytes) continue;
    unqueue(reference);
    present_ += item.bytes - item.present;
    item.present = item.bytes;
    item.returning = true;
  }
  shrink(steady);
}

std::uint64_t Planner::first_use(std::uint32_t reference) const {
  const Recording::Reference& tensor = recording_.reference(reference);
  if (tensor.first != Recording::kNever) return tensor.first;
  return tensor.freed != Recording::kNever ? tensor.freed : kNeverAgain;
}

void Planner::queue(std::uint32_t reference) {
  // Small tensors share blocks and stay: what leaves with one of them would have to come back for another.
  const Item& item = items_[reference];
  if (item.present > 0 && !item.returning && item.bytes >= small_) idle_.emplace(items_[reference].next, reference);
}

void Planner::unqueue(std::uint32_t reference) { idle_.erase({items_[reference].next, reference}); }

// One iteration in the order of the program: tensors come when they are used, and leave when there is no room.
void Planner::run(bool steady) {
  if (steady) begin_iteration();
  plan_.by_use.assign(next_.size(), Plan::kStays);
  plan_.absences.clear();
  live_bytes_.assign(size_, 0);
  for (Position position = 0; position < size_; ++position) {
    const Recording::Event& event = recording_.event(position);
    return_early(position, steady);
    if (event.kind == Recording::Kind::kLaunch) {
      launch(position, steady);
    } else {
      Item& item = items_[event.reference];
      if (item.live) {
        unqueue(event.reference);
        present_ -= item.present;
        live_ -= item.bytes;
        item.live = false;
        item.returning = false;
        item.present = 0;
      }
      if (event.kind == Recording::Kind::kAllocation) {
        item.live = true;
        item.present = item.bytes;
        item.use = Plan::kStays;
        item.next = first_use(event.reference);
        present_ += item.bytes;
        live_ += item.bytes;
        shrink(steady);
        queue(event.reference);
      }
    }
    live_bytes_[position] = live_;
  }
}

// What lives on goes by the name that it has in the next iteration.
void Planner::begin_iteration() {
  std::vector<Item> before = items_;
  idle_.clear();
  present_ = live_ = 0;
  for (Item& item : items_) {
    item.live = item.carried;
    item.present = item.carried ? item.bytes : 0;
    item.use = Plan::kStays;
    item.returning = false;
    item.next = kNeverAgain;
  }
  for (const Item& item : before) {
    if (!item.live || item.successor == Recording::kNone) continue;
    Item& now = items_[item.successor];
    now.live = true;
    now.present = std::min(item.present, now.bytes);
    now.returning = item.returning;
    now.use = item.use;  // what leaves before the next use belongs to the absence that this use began
  }
  for (std::uint32_t i = 0; i < items_.size(); ++i) {
    if (!items_[i].live) continue;
    items_[i].next = first_use(i);
    present_ += items_[i].present;
    live_ += items_[i].bytes;
    queue(i);
  }
}

void Planner::launch(Position position, bool steady) {
  const Recording::Event& event = recording_.event(position);
  const auto uses = recording_.uses(event);
  for (const Recording::Use& use : uses) {
    Item& item = items_[use.reference];
    unqueue(use.reference);
    item.returning = false;
    if (!item.live) {  // made outside the recording
      item.live = true;
      live_ += item.bytes;
    }
    present_ += item.bytes - item.present;
    item.present = item.bytes;
  }
  shrink(steady);
  for (std::uint32_t i = 0; i < uses.size(); ++i) {
    Item& item = items_[uses[i].reference];
    item.use = event.first_use + i;
    item.next = next_[item.use];
    // What is only to be freed is worth keeping until then: sending it away would cost a write and help briefly.
    const Recording::Reference& reference = recording_.reference(uses[i].reference);
    if (item.next == kNeverAgain && reference.freed != Recording::kNever) item.next = reference.freed;
  }
  for (const Recording::Use& use : uses) {
    unqueue(use.reference);
    queue(use.reference);
  }
}

// What is needed last leaves, in whole blocks, until the rest fits.
void Planner::shrink(bool steady) {
  while (present_ > bytes_max_ && !idle_.empty()) {
    const auto [next, reference] = *std::prev(idle_.end());
    Item& item = items_[reference];
    const std::uint64_t block = limits_.block_bytes;
    const std::uint64_t excess = (present_ - bytes_max_ + block - 1) / block * block;
    const std::uint64_t leaves = item.bytes < block ? item.present : std::min(item.present, excess);
    unqueue(reference);
    item.present -= leaves;
    present_ -= leaves;
    queue(reference);
    if (!steady || item.use == Plan::kStays || next_[item.use] == kNeverAgain) continue;
    std::uint32_t& index = plan_.by_use[item.use];
    if (index == Plan::kStays) {
      index = static_cast<std::uint32_t>(plan_.absences.size());
      Plan::Absence absence;
      absence.use = item.use;
      absence.before = next_[item.use];
      plan_.absences.push_back(absence);
    }
    plan_.absences[index].bytes += leaves;
  }
}

// Absences in the order of their uses, and where they begin.
void Planner::finish() {
  std::vector<Position> event_of(next_.size(), 0);
  for (Position position = 0; position < size_; ++position) {
    const Recording::Event& event = recording_.event(position);
    for (std::uint32_t i = 0; i < recording_.uses(event).size(); ++i) event_of[event.first_use + i] = position;
  }
  for (Plan::Absence& absence : plan_.absences) absence.after = event_of[absence.use];
  for (Plan::Absence& absence : plan_.absences) {
    absence.blocks = static_cast<std::uint32_t>((absence.bytes + limits_.block_bytes - 1) / limits_.block_bytes);
  }
  std::sort(plan_.absences.begin(), plan_.absences.end(),
            [](const Plan::Absence& left, const Plan::Absence& right) { return left.use < right.use; });
  std::fill(plan_.by_use.begin(), plan_.by_use.end(), Plan::kStays);
  for (std::uint32_t i = 0; i < plan_.absences.size(); ++i) plan_.by_use[plan_.absences[i].use] = i;
}

double Planner::duration_ns(Position position) const {
  return std::max<double>(static_cast<double>(recording_.event(position).ns), 1.0);
}

// Host memory first. What it cannot hold goes to flash, which is slow: so that its lane is busy from the beginning,
// those absences are taken, in the order in which they begin, for which the lane is free soon enough.
void Planner::choose_tiers() {
  std::vector<std::uint64_t> held(size_, 0);
  for (Plan::Absence& absence : plan_.absences) {
    absence.tier = limits_.host_blocks > 0 ? Tier::kHost : Tier::kFlash;
    if (absence.tier == Tier::kHost) for_events_of(absence, [&](Position i) { held[i] += absence.bytes; });
  }
  if (limits_.host_blocks == 0 || limits_.flash_in_ns <= 0) return;
  const std::uint64_t host_bytes = limits_.host_blocks * limits_.block_bytes;
  std::vector<double> start_ns(size_ + std::size_t{1}, 0);
  for (Position i = 0; i < size_; ++i) start_ns[i + 1] = start_ns[i] + duration_ns(i);
  for (double patience_ns = kPatienceBlocks * limits_.flash_in_ns;; patience_ns *= 2) {
    const Position peak = static_cast<Position>(std::max_element(held.begin(), held.end()) - held.begin());
    if (held[peak] <= host_bytes) return;
    double lane_ns = 0;  // when the lane is through with what it has
    for (Plan::Absence& absence : plan_.absences) {
      const double begin_ns = start_ns[absence.after + std::size_t{1}];
      const double through_ns = std::max(lane_ns, begin_ns) + blocks_of(absence) * limits_.flash_in_ns;
      if (absence.tier == Tier::kHost) {
        const bool covers = absence.before > peak + (absence.after < peak ? 0 : std::uint64_t{size_});
        if (held[peak] <= host_bytes || !covers || lane_ns > begin_ns + patience_ns) continue;
        absence.tier = Tier::kFlash;
        for_events_of(absence, [&](Position i) { held[i] -= absence.bytes; });
      }
      lane_ns = through_ns;
    }
  }
}

// Bytes present at every event if every absence lasts from its use to the next.
std::vector<std::uint64_t> Planner::present_bytes() const {
  std::vector<std::uint64_t> present = live_bytes_;
  for (const Plan::Absence& absence : plan_.absences) {
    for_events_of(absence, [&](Position i) { present[i] -= std::min(present[i], absence.bytes); });
  }
  return present;
}

// For the next round: when each fetch should begin.
void Planner::claim_early(const std::vector<std::uint32_t>& order, const std::vector<double>& start_ns,
                          const std::vector<double>& lead_ns) {
  for (auto& uses : early_) uses.clear();
  for (const std::uint32_t index : order) {
    const Plan::Absence& absence = plan_.absences[index];
    const double block = block_ns(absence.tier);
    const double lead = std::min(lead_ns[index], (blocks_of(absence) + kAloneBlocks) * block);
    std::uint64_t from = absence.before;
    while (from > absence.after + std::uint64_t{1} && start_ns[absence.before] - start_ns[from] < lead) --from;
    const std::uint32_t reference = references_[absence.use];
    const std::uint32_t then = from < size_ ? reference : items_[reference].successor;
    if (then != Recording::kNone) early_[from < size_ ? from : from - size_].emplace_back(absence.use, then);
  }
}

// When each fetch begins: backward from the deadlines, every lane one after the other; then earlier, in the order of
// the deadlines, as far as there is room. Times are those of an iteration without waits; the iteration repeats.
void Planner::schedule() {
  std::vector<double> start_ns(2 * std::size_t{size_} + 1, 0);
  for (std::size_t i = 0; i < 2 * std::size_t{size_}; ++i) {
    start_ns[i + 1] = start_ns[i] + duration_ns(static_cast<Position>(i < size_ ? i : i - size_));
  }
  const double total_ns = start_ns[size_];
  std::vector<std::uint32_t> order(plan_.absences.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto due = [&](std::uint32_t i) { return plan_.absences[i].before % size_; };
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return due(a) > due(b); });
  std::vector<double> lead_ns(order.size(), 0);
  for (const Tier tier : {Tier::kHost, Tier::kFlash}) {
    double free_ns = 2 * total_ns;  // when the lane must have begun what comes after, in the time of the first turn
    for (const int turn : {0, 1}) {
      for (const std::uint32_t index : order) {
        const Plan::Absence& absence = plan_.absences[index];
        if (absence.tier != tier) continue;
        const double end_ns = start_ns[due(index)] + total_ns * (1 - turn);
        free_ns = std::min(free_ns, end_ns) - blocks_of(absence) * block_ns(tier);
        lead_ns[index] = end_ns - free_ns;
      }
    }
  }
  std::vector<std::uint64_t> present = present_bytes();
  const auto advance = [&](Plan::Absence& absence, double lead) {
    const std::uint64_t bytes = absence.bytes;
    while (absence.return_from > absence.after + std::uint64_t{1}) {
      const std::uint64_t earlier = absence.return_from - 1;
      if (start_ns[absence.before] - start_ns[absence.return_from] >= lead) return;
      std::uint64_t& there = present[earlier < size_ ? earlier : earlier - size_];
      if (there + bytes > bytes_max_) return;
      there += bytes;
      absence.return_from = earlier;
    }
  };
  claim_early(order, start_ns, lead_ns);
  std::reverse(order.begin(), order.end());
  for (const std::uint32_t index : order) {
    Plan::Absence& absence = plan_.absences[index];
    absence.return_from = absence.before;
    advance(absence, lead_ns[index] * (1 + kMarginShare) + kMarginBlocks * block_ns(absence.tier));
  }
  // What comes over the slow lane has the first choice of the room that is left.
  for (const Tier tier : {Tier::kFlash, Tier::kHost}) {
    for (const std::uint32_t index : order) {
      if (plan_.absences[index].tier == tier) advance(plan_.absences[index], total_ns);
    }
  }
}

}  // namespace

Plan make_plan(const Recording& recording, const PlanLimits& limits) { return Planner(recording, limits).make(); }

}  // namespace ebb
