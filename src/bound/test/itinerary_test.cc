// The cheapest itinerary beside all there are.
#include "bound/itinerary.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/rng.h"

namespace ebb::fluid {
namespace {

using Leg = Itinerary::Leg;

struct Period {
  std::uint32_t begin = 0, due = 0;  // slots from those of the iteration in which the content was made
  bool returns = true;
};

struct Case {
  std::vector<SlotPrices> prices;
  std::vector<Period> periods;
  Class content;
};

// Up to three periods in a circle of up to seven slots.
Case random_case(Rng& rng) {
  Case made;
  const auto slots = static_cast<std::uint32_t>(2 + rng.below(6));
  const auto price = [&] { return rng.chance(1, 3) ? 0 : static_cast<double>(rng.below(100)); };
  for (std::uint32_t t = 0; t < slots; ++t) made.prices.push_back({price(), price(), price(), price()});
  made.content.clean = rng.chance(1, 4);
  made.content.made = static_cast<std::uint32_t>(rng.below(slots));
  made.content.bytes = 1;
  std::uint32_t at = made.content.made;
  const std::uint32_t end = made.content.made + slots - 1;
  for (std::uint64_t left = 1 + rng.below(3); left > 0 && at <= end; --left) {
    Period period{at + static_cast<std::uint32_t>(rng.below(end - at + 1)), 0, left > 1 || rng.chance(2, 3)};
    period.due = period.begin + static_cast<std::uint32_t>(rng.below(end - period.begin + 1));
    at = period.due + 1;
    made.periods.push_back(period);
    const bool later = period.begin >= slots, crosses = !later && period.due >= slots;
    made.content.absences.push_back(
        {period.begin % slots, period.due % slots, period.returns, crosses, later || crosses});
  }
  return made;
}

// From what its slots say, summed one by one.
double price_of(const Case& given, const std::vector<Leg>& legs) {
  const auto at = [&](std::uint32_t slot) { return given.prices[slot % given.prices.size()]; };
  double price = 0;
  for (const Leg& leg : legs) {
    if (leg.written != Itinerary::kNone) price += at(leg.written).write;
    if (given.periods[leg.period].returns) price += at(leg.back).read;
    for (std::uint32_t t = leg.out; t < leg.back; ++t) price -= at(t).absent;
    for (std::uint32_t t = leg.out; t <= leg.back; ++t) price -= at(t).within;
  }
  return price;
}

// Of all itineraries that begin with `legs`.
double least(const Case& given, std::vector<Leg>& legs, std::uint32_t period) {
  if (period == given.periods.size()) return price_of(given, legs);
  double best = least(given, legs, period + 1);
  const Period& span = given.periods[period];
  const bool writes = legs.empty() && !given.content.clean;
  for (std::uint32_t out = span.begin; out <= span.due; ++out) {
    for (std::uint32_t back = span.returns ? out : span.due; back <= span.due; ++back) {
      for (std::uint32_t written = writes ? given.content.made : out; written <= out; ++written) {
        legs.push_back({period, out, back, writes ? written : Itinerary::kNone});
        best = std::min(best, least(given, legs, period + 1));
        legs.pop_back();
      }
    }
  }
  return best;
}

TEST(Itinerary, CheapestIsTheCheapestOfAll) {
  int away = 0;
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    Rng rng(seed);
    const Case given = random_case(rng);
    const Itinerary found = cheapest(given.content, SummedPrices(given.prices));
    std::vector<Leg> legs;
    ASSERT_NEAR(found.price, least(given, legs, 0), 1e-9) << "seed " << seed;
    ASSERT_NEAR(found.price, price_of(given, found.legs), 1e-9) << "seed " << seed;
    for (const Leg& leg : found.legs) {
      const Period& span = given.periods[leg.period];
      ASSERT_TRUE(span.begin <= leg.out && leg.out <= leg.back && leg.back <= span.due) << "seed " << seed;
      ASSERT_TRUE(leg.written == Itinerary::kNone || (given.content.made <= leg.written && leg.written <= leg.out));
    }
    away += found.legs.empty() ? 0 : 1;
  }
  EXPECT_GT(away, 1000);
}

TEST(Itinerary, StaysWhereNothingIsEarned) {
  Class content;
  content.absences = {{0, 2, true, false, false}};
  EXPECT_TRUE(cheapest(content, SummedPrices(std::vector<SlotPrices>(4))).legs.empty());
}

}  // namespace
}  // namespace ebb::fluid
