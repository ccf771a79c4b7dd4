// See auto_budget.h.
#include "job/auto_budget.h"

#include <algorithm>
#include <limits>

namespace ebb {
namespace {

constexpr std::uint64_t kPageBytes = 4096;
constexpr std::uint64_t kMsASecond = 1000;
constexpr std::uint64_t kUsAMs = 1000;
// A margin is kept below the room, so that not every small change of it is one of the budget.
constexpr std::uint64_t kMarginsOfReserve = 8;
// How long it takes until memory is really given back: what goes on falling will have fallen by that much more.
constexpr std::uint64_t kAheadMs = 500;
constexpr std::uint64_t kPastMs = 250;
constexpr std::uint64_t kGrowEveryMs = 1'000;
constexpr std::uint64_t kGrowSteps = 16;
constexpr std::uint64_t kForgetMs = 120'000;  // that growing was wrong
// Pressure: waiting for this part of a second, and what is given up for it at once, at most, and given back.
constexpr std::uint64_t kPressureEveryMs = 1'000;
constexpr std::uint64_t kPressedPermille = 100;
constexpr std::uint64_t kGiveUpParts = 16;
constexpr std::uint64_t kGivenUpParts = 4;
constexpr std::uint64_t kReliefMs = 10'000;
constexpr std::uint64_t kReliefParts = 64;

std::uint64_t less(std::uint64_t bytes, std::uint64_t by) { return bytes - std::min(bytes, by); }

// The level that leaves least.
const AutoBudget::Level* tightest(const AutoBudget::Sample& sample) {
  const auto left = [&sample](const AutoBudget::Level& level) {
    const std::uint64_t there = std::min(level.total_bytes, sample.held_bytes + level.available_bytes);
    return less(there, AutoBudget::reserve_of(level.total_bytes));
  };
  const auto least = std::min_element(sample.levels.begin(), sample.levels.end(),
                                      [&](const auto& a, const auto& b) { return left(a) < left(b); });
  return least == sample.levels.end() ? nullptr : &*least;
}

std::uint64_t risen(std::optional<std::uint64_t> from, std::optional<std::uint64_t> to) {
  return from && to ? less(*to, *from) : 0;
}

}  // namespace

std::uint64_t AutoBudget::reserve_of(std::uint64_t total_bytes) {
  return std::min(std::max(512 * kMiB, total_bytes / 16), total_bytes / 8);
}

std::uint64_t AutoBudget::room_of(const Sample& sample) {
  const Level* const level = tightest(sample);
  if (level == nullptr) return std::numeric_limits<std::uint64_t>::max();
  return less(std::min(level->total_bytes, sample.held_bytes + level->available_bytes), reserve_of(level->total_bytes));
}

std::uint64_t AutoBudget::update(const Sample& sample) {
  const Level* const level = tightest(sample);
  if (level == nullptr) return bytes_ = started_ ? bytes_ : most_;
  const std::uint64_t reserve = reserve_of(level->total_bytes);
  const std::uint64_t margin = reserve / kMarginsOfReserve;
  const std::uint64_t falls = falls_by(sample, room_of(sample));
  feel_pressure(sample, room_of(sample));
  const std::uint64_t room = std::min(less(room_of(sample), given_up_), most_);
  if (sample.now_ms >= shrank_ms_ + kForgetMs) calm_ms_ = kCalmMs;
  const std::uint64_t calm = calm_room(sample.now_ms, room);
  if (!started_) {
    started_ = true;
    started_ms_ = sample.now_ms;
    bytes_ = less(room, margin);
  } else if (room < bytes_) {
    const bool hurry = level->available_bytes < reserve;
    shrink(sample.now_ms, less(room, margin + (hurry ? falls : 0)));
  } else {
    grow(sample.now_ms, calm, margin);
  }
  std::uint64_t most = most_;
  for (const Level& each : sample.levels) most = std::min(most, each.total_bytes);
  most = std::max(most, kLeastBytes);
  bytes_ = std::clamp(bytes_ / kPageBytes * kPageBytes, std::clamp(sample.least_bytes, kLeastBytes, most), most);
  return bytes_;
}

// By how much the room will be less when what is given up now is there.
std::uint64_t AutoBudget::falls_by(const Sample& sample, std::uint64_t room) {
  past_.emplace_back(sample.now_ms, room);
  while (past_.size() > 2 && past_[1].first + kPastMs <= sample.now_ms) past_.pop_front();
  const auto& [then_ms, then_room] = past_.front();
  const std::uint64_t fell = less(then_room, room);
  const std::uint64_t past_ms = std::max<std::uint64_t>(less(sample.now_ms, then_ms), 1);
  return std::min(fell / past_ms * kAheadMs, room / 4);
}

void AutoBudget::feel_pressure(const Sample& sample, std::uint64_t room) {
  const std::uint64_t past_ms = less(sample.now_ms, pressure_ms_);
  if (started_ && past_ms < kPressureEveryMs) return;
  const std::uint64_t stalled_us =
      std::max(risen(machine_stall_us_, sample.machine_stall_us), risen(group_stall_us_, sample.group_stall_us));
  const bool first = !machine_stall_us_ && !group_stall_us_;
  pressure_ms_ = sample.now_ms;
  machine_stall_us_ = sample.machine_stall_us;
  group_stall_us_ = sample.group_stall_us;
  if (first) return;
  if (stalled_us >= past_ms * kUsAMs / 1000 * kPressedPermille) {
    pressed_ms_ = sample.now_ms;
    given_up_ = std::min(given_up_ + room / kGiveUpParts, room / kGivenUpParts);
  } else if (sample.now_ms >= pressed_ms_ + kReliefMs) {
    given_up_ = less(given_up_, std::max(room / kReliefParts, kPageBytes));
  }
}

// The least room of the last calm_ms_, of which an entry stands for all that came before it and was more.
std::uint64_t AutoBudget::calm_room(std::uint64_t now_ms, std::uint64_t room) {
  while (!lows_.empty() && lows_.back().second >= room) lows_.pop_back();
  lows_.emplace_back(now_ms, room);
  while (lows_.front().first + calm_ms_ < now_ms) lows_.pop_front();
  return lows_.front().second;
}

void AutoBudget::shrink(std::uint64_t now_ms, std::uint64_t bytes) {
  if (grown_ && now_ms < grew_ms_ + 2 * calm_ms_) calm_ms_ = std::min(2 * calm_ms_, kCalmMostMs);
  grown_ = false;
  shrank_ms_ = now_ms;
  bytes_ = bytes;
}

// In steps.
void AutoBudget::grow(std::uint64_t now_ms, std::uint64_t calm_room, std::uint64_t margin) {
  const bool calm = now_ms >= std::max(started_ms_, shrank_ms_) + calm_ms_;
  if (!calm || calm_room < bytes_ + 2 * margin || now_ms < grew_ms_ + kGrowEveryMs) return;
  grew_ms_ = now_ms;
  grown_ = true;
  bytes_ = std::min(calm_room - margin, bytes_ + std::max(calm_room / kGrowSteps, margin));
}

}  // namespace ebb
