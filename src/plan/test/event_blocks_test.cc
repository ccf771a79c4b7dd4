// EventBlocks beside a plain vector.
#include "plan/drafting/event_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/rng.h"

namespace ebb {
namespace {

TEST(EventBlocks, AsAVectorOfAnIterationThatRepeats) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    const std::uint64_t size = rng.between(1, 40);
    std::vector<std::int64_t> plain(size);
    for (auto& blocks : plain) blocks = static_cast<std::int64_t>(rng.below(10));
    EventBlocks tree(plain);
    for (int i = 0; i < 200; ++i) {
      const std::uint64_t first = rng.below(size), end = first + rng.below(size + 1);
      const std::int64_t blocks = static_cast<std::int64_t>(rng.below(9)) - 4;
      if (rng.chance(1, 2)) {
        tree.add(first, end, blocks);
        for (std::uint64_t event = first; event < end; ++event) plain[event % size] += blocks;
      }
      std::uint64_t last = EventBlocks::kNone;
      for (std::uint64_t event = first; event < end; ++event) last = plain[event % size] > blocks ? event : last;
      EXPECT_EQ(tree.last_above(first, end, blocks), last);
      EXPECT_EQ(tree.at(end), plain[end % size]);
      EXPECT_EQ(tree.fullest(), std::max_element(plain.begin(), plain.end()) - plain.begin());
    }
  }
}

}  // namespace
}  // namespace ebb
