// Agreement: how far iterations went as somebody expected, from 0 to 1. Launches are worth as many blocks as they use
// of tensors that are older than the iteration: what is made and gone within one is the same for whoever follows, but
// which weights are used decides what must come from below. Of two accounts, the part that is in both (Dice's
// coefficient).
//
// A value. Owned by who follows the program.
#pragma once

namespace ebb {

struct Agreement {
  double here = 0;      // blocks that launches used
  double expected = 0;  // and that they were expected to use
  double both = 0;      // of these, as expected

  // Iterations of late count most.
  void fade_and_add(const Agreement& iteration) {
    here = here / 2 + iteration.here;
    expected = expected / 2 + iteration.expected;
    both = both / 2 + iteration.both;
  }
  // Of what uses nothing old: `unknown`.
  double share(double unknown) const { return here + expected > 0 ? 2 * both / (here + expected) : unknown; }
};

}  // namespace ebb
