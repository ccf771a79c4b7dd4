// See itinerary.h.
#include "bound/itinerary.h"

#include <limits>

namespace ebb::fluid {
namespace {

using Leg = Itinerary::Leg;

struct PricedLeg {
  Leg leg;
  double price = std::numeric_limits<double>::infinity();
};

// The slot with the cheapest write from when the content was made on; asked for later and later slots.
class FirstWrite {
 public:
  FirstWrite(const SummedPrices& prices, std::uint32_t made) : prices_(prices), best_(made), next_(made + 1) {}

  std::uint32_t until(std::uint32_t slot) {
    for (; next_ <= slot; ++next_) {
      if (prices_.write(next_) < prices_.write(best_)) best_ = next_;
    }
    return best_;
  }

 private:
  const SummedPrices& prices_;
  std::uint32_t best_, next_;
};

struct Span {
  std::uint32_t begin = 0, due = 0;
};

// A period's slots, counted from where its content was made.
Span span_of(const Absence& absence, std::uint32_t slots) {
  const std::uint32_t turn = absence.made_before && !absence.crosses ? slots : 0;
  return {absence.begin + turn, absence.due + turn + (absence.crosses ? slots : 0)};
}

// The best slots to leave and return; `write`: null for what has been written.
PricedLeg best_leg(const Absence& absence, Span span, const SummedPrices& prices, FirstWrite* write) {
  PricedLeg best, leaves;
  for (std::uint32_t slot = span.begin; slot <= span.due; ++slot) {
    const std::uint32_t written = write ? write->until(slot) : Itinerary::kNone;
    const double out = prices.leaving(slot) + (write ? prices.write(written) : 0);
    if (out < leaves.price) leaves = {{0, slot, slot, written}, out};
    if (!absence.returns && slot < span.due) continue;
    const double price = leaves.price + (absence.returns ? prices.read(slot) : 0) - prices.returning(slot);
    if (price >= best.price) continue;
    best = {leaves.leg, price};
    best.leg.back = slot;
  }
  return best;
}

}  // namespace

SummedPrices::SummedPrices(const std::vector<SlotPrices>& slots)
    : slots_(static_cast<std::uint32_t>(slots.size())), at_(slots) {
  ends_.push_back(0);
  moments_.push_back(0);
  for (std::uint32_t turn = 0; turn < 3; ++turn) {
    for (const SlotPrices& each : slots) {
      ends_.push_back(ends_.back() + each.absent);
      moments_.push_back(moments_.back() + each.within);
    }
  }
}

// One period is the first in which a byte is absent, and pays for the write; in those after it the byte is absent if
// that is worth it, in those before it is not.
Itinerary cheapest(const Class& content, const SummedPrices& prices) {
  const auto periods = static_cast<std::uint32_t>(content.absences.size());
  std::vector<PricedLeg> written(periods), first(periods);
  FirstWrite write(prices, content.made);
  for (std::uint32_t i = 0; i < periods; ++i) {
    const Span span = span_of(content.absences[i], prices.slots());
    written[i] = best_leg(content.absences[i], span, prices, nullptr);
    if (!content.clean) first[i] = best_leg(content.absences[i], span, prices, &write);
    written[i].leg.period = first[i].leg.period = i;
  }
  double after = 0, best = 0;
  std::uint32_t begins = content.clean ? 0 : periods;
  for (std::uint32_t i = periods; i-- > 0;) {
    if (!content.clean && first[i].price + after < best) {
      best = first[i].price + after;
      begins = i;
    }
    if (written[i].price < 0) after += written[i].price;
  }
  Itinerary itinerary;
  itinerary.price = content.clean ? after : best;
  for (std::uint32_t i = begins; i < periods; ++i) {
    if (i == begins && !content.clean) {
      itinerary.legs.push_back(first[i].leg);
    } else if (written[i].price < 0) {
      itinerary.legs.push_back(written[i].leg);
    }
  }
  return itinerary;
}

}  // namespace ebb::fluid
