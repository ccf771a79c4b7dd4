// See broker.h.
#include "job/broker.h"

#include "base/check.h"

namespace ebb {
namespace {

constexpr std::uint64_t kGrainBytes = 4096;  // a page
constexpr std::uint64_t kSteps = 16;         // the budget, in steps
// Who waits less than this needs nothing, and memory in use moves only where the difference is worth the disturbance.
constexpr std::uint32_t kNeedyPermille = 20;
constexpr std::uint32_t kDifferencePermille = 100;
constexpr std::uint32_t kCalmTicks = 8;      // after a move: what it did must show first
constexpr std::uint32_t kRestTicks = 40;     // of a member that could not give
constexpr std::uint32_t kRestOverTicks = 4;  // the same, while more is committed than there is

std::uint64_t in_pages(std::uint64_t bytes) { return bytes / kGrainBytes * kGrainBytes; }

}  // namespace

JobBroker::JobBroker(std::uint64_t budget_bytes, Share share, std::uint64_t flash_bytes)
    : budget_(0), ceiling_(0), flash_bytes_(flash_bytes), share_(share) {
  set_budget(budget_bytes);
}

std::uint64_t JobBroker::cost(const Member& member) { return std::max(member.granted, member.held); }

std::uint64_t JobBroker::committed_bytes() const {
  std::uint64_t sum = 0;
  for (const auto& [id, member] : members_) sum += cost(member);
  return sum;
}

std::uint64_t JobBroker::resident_bytes() const {
  std::uint64_t sum = 0;
  for (const auto& [id, member] : members_) sum += std::min(member.resident, cost(member));
  return sum;
}

std::uint64_t JobBroker::least_bytes() const {
  std::uint64_t sum = 0;
  for (const auto& [id, member] : members_) {
    const bool waits = member.state == Member::State::kWaiting;
    sum += waits ? member.facts.least_bytes : member.granted - above_least(member);
  }
  return sum;
}

std::uint64_t JobBroker::free_bytes() const {
  const std::uint64_t committed = committed_bytes();
  return budget_ > committed ? budget_ - committed : 0;
}

std::uint64_t JobBroker::above_least(const Member& member) {
  const std::uint64_t least = std::max(member.facts.least_bytes, member.least);
  return member.granted <= least ? 0 : member.granted - least;
}

std::uint64_t JobBroker::can_give(const Member& member) {
  const bool asked = member.giving() || member.rest > 0 || member.state != Member::State::kActive;
  return asked ? 0 : above_least(member);
}

// What members are giving up, but for those that take too long.
std::uint64_t JobBroker::coming_bytes() const {
  std::uint64_t sum = 0;
  for (const auto& [id, member] : members_) {
    if (member.ticks < kPatienceTicks) sum += member.held - member.granted;
  }
  return sum;
}

void JobBroker::join(Id id, const Facts& facts) {
  Member member;
  member.id = id;
  member.facts = facts;
  members_[id] = member;
}

void JobBroker::need(Id id) {
  const auto found = members_.find(id);
  if (found == members_.end() || found->second.state != Member::State::kIdle) return;
  found->second.state = Member::State::kWaiting;
  found->second.turn = ++turns_;
  found->second.ticks = 0;
  serve();
}

void JobBroker::need_flash(Id id, std::uint64_t bytes) {
  const auto found = members_.find(id);
  if (found == members_.end()) return;
  std::uint64_t taken = 0;
  for (const auto& [other, member] : members_) taken += member.flash;
  found->second.flash += std::min(bytes, flash_bytes_ - taken);
  orders_.push_back({id, false, true, false, found->second.serial, found->second.flash});
}

void JobBroker::report(Id id, const Report& report) {
  const auto found = members_.find(id);
  if (found == members_.end()) return;
  Member& member = found->second;
  member.resident = report.resident_bytes;
  member.least = report.least_bytes;
  member.stalls += std::min(report.stall_permille, 1000u);
  ++member.reports;
  // What it has not heard yet can only be less, unless it was given more since.
  if (member.state != Member::State::kActive || report.serial < member.raised || report.serial > member.serial) return;
  member.held = std::max(member.granted, std::min(member.held, report.held_bytes));
  if (report.stuck && report.serial == member.serial && member.giving()) {
    member.rest = committed_bytes() > budget_ ? kRestOverTicks : kRestTicks;
    order(member, member.held);
  }
  note_committed();
  serve();
}

void JobBroker::leave(Id id) {
  members_.erase(id);
  std::erase_if(orders_, [id](const Order& order) { return order.id == id; });
  note_committed();
  serve();
}

void JobBroker::set_budget(std::uint64_t bytes) {
  budget_ = bytes;
  step_ = std::max(in_pages(bytes / kSteps), kGrainBytes);
  note_committed();
  lower_to_budget();
  serve();
}

void JobBroker::note_committed() { ceiling_ = std::max(budget_, std::min(ceiling_, committed_bytes())); }

void JobBroker::order(Member& member, std::uint64_t bytes, bool given_back) {
  ++member.serial;
  if (bytes > member.granted) member.raised = member.serial;
  member.granted = bytes;
  member.held = std::max(member.held, bytes);
  member.ticks = 0;
  orders_.push_back({member.id, false, false, given_back, member.serial, bytes});
}

void JobBroker::refuse(Member& member) {
  member.state = Member::State::kIdle;
  orders_.push_back({member.id, true, false, false, member.serial, 0});
}

std::vector<JobBroker::Order> JobBroker::take_orders() { return std::exchange(orders_, {}); }

// Of all ranks, or where there are none of all that are active, each the same.
std::uint64_t JobBroker::equal_share(const Member& of) const {
  std::uint64_t others = 0;
  std::uint64_t equals = 0;
  for (const auto& [id, member] : members_) {
    const bool counts = member.state != Member::State::kIdle && &member != &of;
    if (member.has_rank() == of.has_rank() && (of.has_rank() || counts)) {
      equals += counts ? 1 : 0;
    } else if (&member != &of) {
      others += cost(member);
    }
  }
  const std::uint64_t number = of.has_rank() ? std::max<std::uint64_t>(of.facts.ranks, equals + 1) : equals + 1;
  return others < budget_ ? in_pages((budget_ - others) / number) : 0;
}

std::uint64_t JobBroker::first_share(const Member& of) const {
  bool alone = true;
  bool ranks = false;
  for (const auto& [id, member] : members_) {
    if (&member == &of || member.state == Member::State::kIdle) continue;
    alone = false;
    ranks = ranks || member.has_rank();
  }
  std::uint64_t share = of.facts.least_bytes;
  if (of.has_rank() || (share_ == Share::kEqual && !ranks)) {
    share = equal_share(of);
  } else if (alone) {
    share = budget_;
  }
  return std::clamp(share, of.facts.least_bytes, std::max(of.facts.least_bytes, most(of)));
}

JobBroker::Member* JobBroker::next_waiting() {
  Member* first = nullptr;
  for (auto& [id, member] : members_) {
    if (member.state == Member::State::kWaiting && (first == nullptr || member.turn < first->turn)) first = &member;
  }
  return first;
}

// Tells them to give up so much together: first what they do not use, then those that wait least; what nobody of the
// job gets, from all alike, or the slowest of its ranks would bear it.
void JobBroker::take(std::uint64_t bytes, Givers givers, bool given_back) {
  std::stable_sort(givers.begin(), givers.end(), [](const auto& a, const auto& b) {
    return a.first->stall != b.first->stall ? a.first->stall < b.first->stall : a.first->granted > b.first->granted;
  });
  std::vector<std::uint64_t> parts(givers.size());
  const auto take_up_to = [&](std::size_t i, std::uint64_t most) {
    const std::uint64_t more = std::min({bytes, most, givers[i].second - parts[i]});
    parts[i] += more;
    bytes -= more;
  };
  std::uint64_t used = 0;  // of what they can give
  for (std::size_t i = 0; i < givers.size(); ++i) {
    const Member& member = *givers[i].first;
    take_up_to(i, member.granted - std::min(member.granted, member.resident));
    used += givers[i].second - parts[i];
  }
  const std::uint64_t pages = bytes / kGrainBytes;
  for (std::size_t i = 0; given_back && used >= kGrainBytes && i < givers.size(); ++i) {
    const std::uint64_t own = (givers[i].second - parts[i]) / kGrainBytes;
    take_up_to(i, pages * own / (used / kGrainBytes) * kGrainBytes);
  }
  for (std::size_t i = 0; i < givers.size(); ++i) take_up_to(i, bytes);
  for (std::size_t i = 0; i < givers.size(); ++i) {
    if (parts[i] == 0) continue;
    Member& member = *givers[i].first;
    member.promised = 0;
    order(member, member.granted - parts[i], given_back);
  }
}

void JobBroker::take_for(std::uint64_t bytes, const Member& taker) {
  Givers givers;
  for (auto& [id, member] : members_) {
    if (&member != &taker && can_give(member) > 0) givers.emplace_back(&member, can_give(member));
  }
  take(bytes, std::move(givers));
}

// Also from those that are giving something up already; who does not answer, or has just said that it cannot, is
// passed over.
void JobBroker::lower_to_budget() {
  const std::uint64_t left = committed_bytes() - coming_bytes();
  if (left <= budget_) return;
  Givers givers;
  for (auto& [id, member] : members_) {
    const bool answers = !member.giving() || member.ticks < kPatienceTicks;
    if (answers && member.rest == 0 && above_least(member) > 0) givers.emplace_back(&member, above_least(member));
  }
  take(left - budget_, std::move(givers), true);
}

void JobBroker::serve() {
  for (Member* member = next_waiting(); member != nullptr && serve(*member); member = next_waiting()) {
  }
}

// False: it has to wait, and so have those after it.
bool JobBroker::serve(Member& member) {
  const std::uint64_t least = member.facts.least_bytes;
  const std::uint64_t there = free_bytes();
  if (there >= least) {
    const std::uint64_t share = first_share(member);
    member.state = Member::State::kActive;
    member.promised = share > there && share_ == Share::kStalls ? share : 0;
    member.resident = 0;
    member.stall = 0;
    member.rest = 0;
    order(member, std::min(share, there));
    return true;
  }
  const std::uint64_t coming = coming_bytes();
  if (there + coming < least) take_for(least - there - coming, member);
  if (member.ticks < kWaitTicks && there + coming_bytes() >= least) return false;
  bool later = false;  // whether somebody could still give something
  for (const auto& [id, other] : members_) later = later || other.giving() || other.rest > 0;
  if (later && member.ticks < kWaitTicks) return false;
  refuse(member);
  return true;
}

// More of what was promised at the beginning, as it comes.
void JobBroker::keep_promises() {
  for (auto& [id, member] : members_) {
    if (member.state != Member::State::kActive || member.promised <= member.granted || member.giving()) continue;
    const std::uint64_t more = std::min(in_pages(free_bytes()), member.promised - member.granted);
    if (more > 0) order(member, member.granted + more);
  }
}

void JobBroker::tick() {
  bool giving = false;
  for (auto& [id, member] : members_) {
    if (member.giving() || member.state == Member::State::kWaiting) ++member.ticks;
    if (member.rest > 0) --member.rest;
    if (member.reports > 0) {
      member.stall = (3 * member.stall + static_cast<std::uint32_t>(member.stalls / member.reports)) / 4;
      member.stalls = member.reports = 0;
    }
    giving = giving || (member.giving() && member.ticks < kPatienceTicks);
  }
  if (calm_ticks_ > 0) --calm_ticks_;
  lower_to_budget();
  serve();
  if (next_waiting() != nullptr) return;
  keep_promises();
  if (giving) return;
  share_ == Share::kEqual ? move_to_equal() : move_to_stalled();
}

void JobBroker::move_to_equal() {
  bool ranks = false;
  for (const auto& [id, member] : members_) {
    ranks = ranks || (member.has_rank() && member.state == Member::State::kActive);
  }
  for (auto& [id, member] : members_) {
    if (member.state != Member::State::kActive || (ranks && !member.has_rank())) continue;
    const std::uint64_t share =
        std::clamp(equal_share(member), member.facts.least_bytes, std::max(member.facts.least_bytes, most(member)));
    if (share < member.granted) {
      const std::uint64_t less = std::min(member.granted - share, can_give(member));
      if (less > 0) order(member, member.granted - less);
    } else if (const std::uint64_t more = std::min(in_pages(free_bytes()), share - member.granted); more > 0) {
      order(member, member.granted + more);
    }
  }
}

void JobBroker::move_to_stalled() {
  Member* needy = nullptr;
  std::uint32_t active = 0;
  for (auto& [id, member] : members_) {
    if (member.state != Member::State::kActive || member.giving()) continue;
    ++active;
    if (member.granted < most(member) && (needy == nullptr || member.stall > needy->stall)) needy = &member;
  }
  if (needy == nullptr) return;
  const std::uint64_t free = in_pages(free_bytes());
  const std::uint64_t room = most(*needy) - needy->granted;
  const bool alone = active == 1;
  if (!alone && needy->stall < kNeedyPermille) return;
  if (free > 0) {
    order(*needy, needy->granted + std::min({free, room, alone ? room : step_}));
  } else if (!alone) {
    move_from(*needy);
  }
}

// What somebody does not use moves at once; what somebody uses, from who waits least, and not often.
void JobBroker::move_from(Member& needy) {
  Member* least = nullptr;
  for (auto& [id, member] : members_) {
    if (&member == &needy || can_give(member) == 0) continue;
    const std::uint64_t unused = member.granted - std::min(member.granted, member.resident);
    if (unused > step_ && member.stall < kNeedyPermille) {
      order(member, member.granted - std::min({in_pages(unused - step_ / 2), can_give(member), 2 * step_}));
      return;
    }
    if (least == nullptr || member.stall < least->stall) least = &member;
  }
  if (least == nullptr || calm_ticks_ > 0) return;
  if (needy.stall < least->stall + kDifferencePermille || needy.stall < least->stall / 2 * 3) return;
  calm_ticks_ = kCalmTicks;
  least->promised = 0;
  order(*least, least->granted - std::min(step_, can_give(*least)));
}

void JobBroker::validate() const {
  EBB_CHECK_LE(committed_bytes(), ceiling_);
  std::uint64_t flash = 0;
  for (const auto& [id, member] : members_) flash += member.flash;
  EBB_CHECK_LE(flash, flash_bytes_);
  for (const auto& [id, member] : members_) EBB_CHECK_LE(member.granted, member.held);
}

}  // namespace ebb
