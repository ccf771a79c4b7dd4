// Agreement: how far iterations went as expected.
#include "plan/follow/agreement.h"

#include <gtest/gtest.h>

namespace ebb {
namespace {

TEST(Agreement, IsThePartOfBothAccountsThatIsInBoth) {
  EXPECT_DOUBLE_EQ((Agreement{10, 10, 10}.share(0)), 1);
  EXPECT_DOUBLE_EQ((Agreement{10, 10, 5}.share(0)), 0.5);
  EXPECT_DOUBLE_EQ((Agreement{10, 30, 10}.share(0)), 0.5) << "what was expected in vain counts as what came unexpected";
  EXPECT_DOUBLE_EQ((Agreement{10, 0, 0}.share(1)), 0);
  EXPECT_DOUBLE_EQ(Agreement{}.share(1), 1) << "nothing is known of it";
}

TEST(Agreement, IterationsOfLateAndLargeOnesCountMost) {
  Agreement agreement;
  agreement.fade_and_add({100, 100, 0});
  agreement.fade_and_add({100, 100, 100});
  EXPECT_GT(agreement.share(0), 0.6);
  agreement.fade_and_add({2, 2, 0});
  EXPECT_GT(agreement.share(0), 0.6) << "a small one hardly counts";
}

}  // namespace
}  // namespace ebb
