// What a budget does as other programs come and go: scripted, and for any sequence of samples.
#include "job/auto_budget.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <functional>

namespace ebb {
namespace {

constexpr std::uint64_t kTotal = 16 * kGiB;
constexpr std::uint64_t kReserve = kGiB;  // a sixteenth
constexpr std::uint64_t kMargin = kReserve / 8;
constexpr std::uint64_t kSampleMs = 50;

// A machine in which the job takes all it may at once, and gives back at the speed of a disk.
class World {
 public:
  explicit World(std::uint64_t total = kTotal) : total_(total), budget_(total) { sample(); }

  // Until `seconds` have passed; `others`: what the other programs use, by the time since this call in ms.
  void pass(double seconds, const std::function<std::uint64_t(std::uint64_t)>& others) {
    const std::uint64_t begin = now_;
    while (now_ < begin + static_cast<std::uint64_t>(seconds * 1000)) {
      now_ += kSampleMs;
      others_ = others(now_ - begin);
      stall_us_ += stall_permille_ * kSampleMs;
      const std::uint64_t gives = kGiB * kSampleMs / 1000;
      const std::uint64_t may = std::min(wants, budget_.bytes());
      held_ = held_ > may ? std::max(held_ - std::min(held_, gives), may) : may;
      sample();
      least_free_ = std::min(least_free_, free());
    }
  }
  void pass(double seconds, std::uint64_t others) {
    pass(seconds, [others](std::uint64_t) { return others; });
  }
  std::uint64_t free() const { return total_ - std::min(total_, held_ + others_); }
  std::uint64_t bytes() const { return budget_.bytes(); }

  std::vector<AutoBudget::Level> groups;
  std::uint64_t wants = ~std::uint64_t{0};
  std::uint64_t least = 0;
  std::uint64_t stall_permille_ = 0;
  std::uint64_t least_free_ = ~std::uint64_t{0};
  std::uint64_t changes = 0;  // of direction
  std::uint64_t grown = 0;    // how often

 private:
  void sample() {
    AutoBudget::Sample sample{now_, {{total_, free()}}, held_, least, stall_us_, std::nullopt};
    sample.levels.insert(sample.levels.end(), groups.begin(), groups.end());
    const std::uint64_t before = budget_.bytes();
    budget_.update(sample);
    if (before == budget_.bytes() || before == 0) return;
    const bool up = budget_.bytes() > before;
    changes += up != up_ ? 1 : 0;
    grown += up ? 1 : 0;
    up_ = up;
  }

  const std::uint64_t total_;
  AutoBudget budget_;
  std::uint64_t now_ = 1'000'000;
  std::uint64_t others_ = 0;
  std::uint64_t held_ = 0;
  std::uint64_t stall_us_ = 0;
  bool up_ = false;
};

TEST(AutoBudget, BeginsWithWhatIsFreeButForTheReserve) {
  const World world;
  EXPECT_EQ(world.bytes(), kTotal - kReserve - kMargin);
}

TEST(AutoBudget, KeepsASixteenthAtLeastHalfAGibAndNoMoreThanAnEighth) {
  EXPECT_EQ(AutoBudget::reserve_of(64 * kGiB), 4 * kGiB);
  EXPECT_EQ(AutoBudget::reserve_of(6 * kGiB), 512 * kMiB);
  EXPECT_EQ(AutoBudget::reserve_of(kGiB), 128 * kMiB);
}

TEST(AutoBudget, WhatTheJobHoldsIsNotTakenFromIt) {
  World world;
  world.pass(60, 2 * kGiB);
  const std::uint64_t settled = world.bytes();
  EXPECT_EQ(settled, kTotal - 2 * kGiB - kReserve - kMargin);
  world.pass(60, 2 * kGiB);
  EXPECT_EQ(world.bytes(), settled);
}

TEST(AutoBudget, AProgramThatTakesMuchGetsItOutOfTheReserveAndFindsItFullAgain) {
  World world;
  world.pass(10, 0);
  const auto taker = [](std::uint64_t ms) { return std::min(8 * kGiB, ms * kGiB / 1000); };  // 1 GiB/s
  world.pass(9, taker);
  EXPECT_GT(world.least_free_, kReserve / 4);
  world.pass(1, 8 * kGiB);
  EXPECT_GE(world.free(), kReserve);
  EXPECT_LE(world.bytes(), kTotal - 8 * kGiB - kReserve);
  EXPECT_GE(world.bytes(), kTotal - 8 * kGiB - kReserve - kMargin - kGiB);
}

TEST(AutoBudget, AsLongAsTheReserveIsWholeNothingIsGivenUpAhead) {
  World world;
  world.wants = kGiB;
  world.pass(10, 0);
  world.pass(4, [](std::uint64_t ms) { return ms * kGiB / 1000; });
  EXPECT_GE(world.bytes(), kTotal - 4 * kGiB - kReserve - 2 * kMargin);
}

TEST(AutoBudget, ASlowTakerNeverSeesLessThanTheReserveLessAMoment) {
  World world;
  world.pass(10, 0);
  world.pass(100, [](std::uint64_t ms) { return ms * 80 * kMiB / 1000; });
  EXPECT_GT(world.least_free_, kReserve - 32 * kMiB);
}

TEST(AutoBudget, WhatComesBackIsTakenAfterAWhileStepByStep) {
  World world;
  world.pass(30, 8 * kGiB);
  const std::uint64_t low = world.bytes();
  world.pass(4.5, 0);
  EXPECT_EQ(world.bytes(), low);
  world.pass(3, 0);
  EXPECT_GT(world.bytes(), low);
  EXPECT_LT(world.bytes(), low + 4 * kGiB);
  world.pass(30, 0);
  EXPECT_EQ(world.bytes(), kTotal - kReserve - kMargin);
}

TEST(AutoBudget, WhoComesAndGoesFindsRoomAndTheBudgetStays) {
  World world;
  world.pass(10, 0);
  const auto comes_and_goes = [](std::uint64_t ms) { return ms / 8000 % 2 == 0 ? 3 * kGiB : 0; };
  world.pass(120, comes_and_goes);
  EXPECT_LE(world.changes, 4u);
  const std::uint64_t changes = world.changes;
  const std::uint64_t low = world.bytes();
  EXPECT_LE(low, kTotal - 3 * kGiB - kReserve);
  world.pass(300, comes_and_goes);
  EXPECT_LE(world.changes, changes + 6);  // it is tried again every two minutes
  // Gone for good.
  world.pass(300, 0);
  EXPECT_EQ(world.bytes(), kTotal - kReserve - kMargin);
}

TEST(AutoBudget, TwoMinutesLaterAllIsForgotten) {
  World world;
  world.pass(10, 0);
  world.pass(100, [](std::uint64_t ms) { return ms / 8'000 % 2 == 0 ? 3 * kGiB : 0; });
  world.pass(130, 8 * kGiB);
  const std::uint64_t low = world.bytes();
  world.pass(7, 0);
  EXPECT_GT(world.bytes(), low);
}

TEST(AutoBudget, SmallChangesOfWhatIsFreeChangeNothing) {
  World world;
  world.pass(30, 2 * kGiB);
  const std::uint64_t settled = world.bytes();
  world.pass(60, [](std::uint64_t ms) { return 2 * kGiB + (ms / kSampleMs % 2) * kMargin / 2; });
  EXPECT_EQ(world.bytes(), settled);
}

TEST(AutoBudget, GivesUpAPartUnderPressureAndTakesItBackWhenThatIsOver) {
  World world;
  world.pass(30, 2 * kGiB);
  const std::uint64_t settled = world.bytes();
  world.stall_permille_ = 50;
  world.pass(10, 2 * kGiB);
  EXPECT_EQ(world.bytes(), settled);
  world.stall_permille_ = 300;
  world.pass(3, 2 * kGiB);
  EXPECT_LT(world.bytes(), settled - kGiB);
  world.pass(60, 2 * kGiB);
  EXPECT_GT(world.bytes(), settled / 2);
  world.stall_permille_ = 0;
  world.pass(5, 2 * kGiB);
  EXPECT_LT(world.bytes(), settled - kGiB);
  world.pass(120, 2 * kGiB);
  EXPECT_GE(world.bytes(), settled - 2 * kMargin);
}

TEST(AutoBudget, ALimitThatFallsIsObeyedAndOneThatRisesUsed) {
  World world;
  world.groups = {{8 * kGiB, 0}};
  const auto left = [&world](std::uint64_t limit) {
    world.groups[0] = {limit, limit - std::min(limit, world.bytes())};
    return std::uint64_t{0};
  };
  world.pass(20, [&](std::uint64_t) { return left(8 * kGiB); });
  EXPECT_LE(world.bytes(), 8 * kGiB - 512 * kMiB);
  world.pass(20, [&](std::uint64_t) { return left(3 * kGiB); });
  EXPECT_LE(world.bytes(), 3 * kGiB - 384 * kMiB);
  EXPECT_GE(world.bytes(), 2 * kGiB);
  world.pass(60, [&](std::uint64_t) { return left(8 * kGiB); });
  EXPECT_GE(world.bytes(), 7 * kGiB);
}

TEST(AutoBudget, KeepsTheLeastWhateverOthersTake) {
  World world;
  world.least = 3 * kGiB;
  world.pass(20, kTotal);
  EXPECT_EQ(world.bytes(), 3 * kGiB);
  world.least = 0;
  world.pass(20, kTotal);
  EXPECT_EQ(world.bytes(), AutoBudget::kLeastBytes);
}

TEST(AutoBudget, WithoutAnythingKnownItIsTheMost) {
  AutoBudget budget(kGiB);
  EXPECT_EQ(budget.update({}), kGiB);
}

// The tighter level is the one that leaves less; the other has less altogether.
TEST(AutoBudget, TheLeastIsNoMoreThanAnyLevelHas) {
  AutoBudget budget(513 * kMiB);
  const AutoBudget::Sample sample{0, {{300 * kMiB, 300 * kMiB}, {400 * kMiB, 10 * kMiB}}, 0, 350 * kMiB, {}, {}};
  EXPECT_EQ(budget.update(sample), 300 * kMiB);
}

rc::Gen<AutoBudget::Sample> any_sample() {
  return rc::gen::exec([] {
    AutoBudget::Sample sample;
    const auto number = *rc::gen::inRange<std::size_t>(1, 4);
    for (std::size_t i = 0; i < number; ++i) {
      const auto total = *rc::gen::inRange<std::uint64_t>(kMiB, 64 * kGiB);
      sample.levels.push_back({total, *rc::gen::inRange<std::uint64_t>(0, total + 1)});
    }
    sample.held_bytes = *rc::gen::inRange<std::uint64_t>(0, 64 * kGiB);
    sample.least_bytes = *rc::gen::inRange<std::uint64_t>(0, kGiB);
    if (*rc::gen::inRange(0, 2) == 1) sample.machine_stall_us = *rc::gen::inRange<std::uint64_t>(0, 10'000'000);
    if (*rc::gen::inRange(0, 2) == 1) sample.group_stall_us = *rc::gen::inRange<std::uint64_t>(0, 10'000'000);
    return sample;
  });
}

RC_GTEST_PROP(AutoBudgetProperties, NeverAboveWhatIsThereAndNeverBelowTheLeast, ()) {
  AutoBudget budget(*rc::gen::inRange<std::uint64_t>(AutoBudget::kLeastBytes, 64 * kGiB));
  std::uint64_t now_ms = 0;
  for (AutoBudget::Sample sample : *rc::gen::container<std::vector<AutoBudget::Sample>>(any_sample())) {
    now_ms += *rc::gen::inRange<std::uint64_t>(0, 20'000);
    sample.now_ms = now_ms;
    const std::uint64_t bytes = budget.update(sample);
    std::uint64_t most = budget.most_bytes();
    for (const AutoBudget::Level& level : sample.levels) most = std::min(most, level.total_bytes);
    const std::uint64_t least =
        std::min(std::max(sample.least_bytes, AutoBudget::kLeastBytes), std::max(most, AutoBudget::kLeastBytes));
    RC_ASSERT(bytes >= least);
    for (const AutoBudget::Level& level : sample.levels) {
      const std::uint64_t there = sample.held_bytes + level.available_bytes;
      const std::uint64_t reserve = AutoBudget::reserve_of(level.total_bytes);
      RC_ASSERT(bytes <= std::max(least, there - std::min(there, reserve)));
    }
  }
}

// However the others behave: without a time in which there is more, nothing more is taken.
RC_GTEST_PROP(AutoBudgetProperties, GrowsOnlyToWhatWasThereForAWhile, ()) {
  AutoBudget budget(kTotal);
  std::deque<std::pair<std::uint64_t, std::uint64_t>> rooms;
  for (std::uint64_t now_ms = kSampleMs; now_ms < 60'000; now_ms += 10 * kSampleMs) {
    const std::uint64_t available = *rc::gen::inRange<std::uint64_t>(0, kTotal + 1);
    const std::uint64_t before = budget.bytes();
    const bool first = before == 0;
    budget.update({now_ms, {{kTotal, available}}, 0, 0, std::nullopt, std::nullopt});
    rooms.emplace_back(now_ms, AutoBudget::room_of({now_ms, {{kTotal, available}}, 0, 0, {}, {}}));
    while (rooms.front().first + AutoBudget::kCalmMs <= now_ms) rooms.pop_front();
    if (first || budget.bytes() <= before) continue;
    for (const auto& [then_ms, room] : rooms) RC_ASSERT(budget.bytes() <= std::max(room, AutoBudget::kLeastBytes));
  }
}

}  // namespace
}  // namespace ebb
