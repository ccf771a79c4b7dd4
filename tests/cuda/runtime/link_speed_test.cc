// The speed of a link, on a device that copies as fast as it is told to.
#include "runtime/pace/link_speed.h"

#include <gtest/gtest.h>

#include "ebb/units.h"
#include "timed_device.h"

namespace ebb {
namespace {

constexpr std::size_t kBlock = 8 * kMiB;

TEST(LinkSpeed, IsThatOfTheCopies) {
  for (const double speed : {6.0, 48.0}) {
    TimedDevice device(kBlock, 4, kBlock, {.bytes_a_ns = speed});
    EXPECT_NEAR(measure_link(device, kBlock), speed, speed / 4);
    EXPECT_EQ(device.calls().created, 1u);
  }
}

TEST(LinkSpeed, IsNotKnownOfALostDeviceOrWithoutHostMemory) {
  TimedDevice small(kBlock, 4, kBlock / 2, {});
  EXPECT_EQ(measure_link(small, kBlock), 0);
  TimedDevice lost(kBlock, 4, kBlock, {});
  lost.lose("gone");
  EXPECT_EQ(measure_link(lost, kBlock), 0);
}

}  // namespace
}  // namespace ebb
