// Heap: packing, merging and earlier places by hand, then random operations against a model of what is live.
#include "alloc/heap.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "base/rng.h"

namespace ebb {
namespace {

constexpr std::uint64_t kPage = 4096;

TEST(Heap, RoundsToGrains) {
  EXPECT_EQ(Heap::round_up(0), 64u);
  EXPECT_EQ(Heap::round_up(1), 64u);
  EXPECT_EQ(Heap::round_up(64), 64u);
  EXPECT_EQ(Heap::round_up(65), 128u);
  EXPECT_EQ(Heap::round_up(64 * kPage - 1), 64 * kPage);
  EXPECT_EQ(Heap::round_up(64 * kPage + 1), 65 * kPage);
}

TEST(Heap, PacksNeighboursTightly) {
  Heap heap(0, 1 << 20);
  EXPECT_EQ(heap.allocate(100, 1)->offset, 0u);
  EXPECT_EQ(heap.allocate(100, 2)->offset, 128u);
  EXPECT_EQ(heap.frontier(), 256u);
  EXPECT_EQ(heap.live_bytes(), 256u);
  ASSERT_NE(heap.find(128), nullptr);
  EXPECT_EQ(heap.find(128)->serial, 2u);
  EXPECT_EQ(heap.find(64), nullptr);
  heap.validate();
}

TEST(Heap, MergesWhatIsFreed) {
  Heap heap(0, 1 << 20);
  std::vector<std::uint64_t> offsets;
  for (std::uint64_t i = 0; i < 4; ++i) offsets.push_back(heap.allocate(512, i)->offset);
  const std::uint64_t last = heap.allocate(64, 9)->offset;
  for (const std::uint64_t i : {2u, 0u, 3u, 1u}) {
    heap.free(offsets[i]);
    heap.validate();
  }
  EXPECT_EQ(heap.allocate(2048, 10)->offset, 0u);  // four neighbours made one
  heap.free(0);
  heap.free(last);
  EXPECT_EQ(heap.frontier(), 0u);  // all was free: it has come back
  heap.validate();
}

TEST(Heap, SaysWhichAddressesHaveBeenInUse) {
  Heap heap(0, 1 << 20);
  const auto first = heap.allocate(1000, 1);
  EXPECT_FALSE(first->reused);
  heap.free(first->offset);
  EXPECT_TRUE(heap.allocate(1000, 2)->reused);
  EXPECT_FALSE(heap.allocate(1000, 3)->reused);
}

TEST(Heap, RefusesWhatHasNoPlace) {
  Heap heap(0, 4096);
  const std::uint64_t first = heap.allocate(2048, 1)->offset;
  const std::uint64_t second = heap.allocate(2048, 2)->offset;
  EXPECT_FALSE(heap.allocate(1, 3).has_value());
  heap.free(first);
  heap.free(second);
  EXPECT_TRUE(heap.allocate(4096, 4).has_value());
  heap.validate();
}

// An iteration's ranges by hand: where each lies.
std::vector<std::uint64_t> places(Heap& heap, const std::vector<std::uint64_t>& sizes) {
  std::vector<std::uint64_t> offsets;
  for (const std::uint64_t size : sizes) offsets.push_back(heap.allocate(size, 1)->offset);
  return offsets;
}

TEST(Heap, GivesRangesTheirPlaceOfTheIterationBefore) {
  Heap heap(0, 1 << 20);
  const std::vector<std::uint64_t> sizes = {1024, 4096, 1024, 2048};
  const std::vector<std::uint64_t> before = places(heap, sizes);
  for (const std::size_t i : {1u, 3u, 0u, 2u}) heap.free(before[i]);
  heap.step();
  const std::uint64_t other = heap.allocate(64, 1)->offset;  // of a size of its own: takes the first place that is free
  heap.free(other);
  EXPECT_EQ(places(heap, sizes), before);
  for (const std::uint64_t offset : before) heap.free(offset);
  heap.step();
  EXPECT_EQ(heap.allocate(2048, 1)->offset, before[3]);  // whatever lies in front of it
  heap.validate();
  EXPECT_EQ(heap.allocate(64, 1)->offset, 0u);
  EXPECT_NE(heap.allocate(1024, 1)->offset, before[0]);  // that is not free any more
  EXPECT_EQ(heap.allocate(1024, 1)->offset, before[2]);
  heap.validate();
}

// What an iteration leaves alive lies where the next one would have it: the two take turns.
TEST(Heap, KnowsThePlacesOfTwoIterations) {
  Heap heap(0, 1 << 20);
  std::vector<std::vector<std::uint64_t>> gradients;
  for (int i = 0; i < 8; ++i) {
    const std::vector<std::uint64_t> work = places(heap, {4096, 8192});
    gradients.push_back(places(heap, {1024, 1024, 2048}));
    for (const std::uint64_t offset : work) heap.free(offset);
    if (i > 0) {
      for (const std::uint64_t offset : gradients[static_cast<std::size_t>(i) - 1]) heap.free(offset);
    }
    heap.step();
  }
  EXPECT_EQ(gradients[7], gradients[5]);
  EXPECT_EQ(gradients[6], gradients[4]);
  heap.validate();
}

TEST(Heap, AnIterationOfOtherSizesInBetweenDoesNotCount) {
  Heap heap(0, 1 << 20);
  const std::vector<std::uint64_t> before = places(heap, {1024, 4096});
  for (const std::uint64_t offset : before) heap.free(offset);
  heap.step();
  for (const std::uint64_t offset : places(heap, {640, 5120})) heap.free(offset);
  heap.step();
  EXPECT_EQ(places(heap, {1024, 4096}), before);
}

TEST(Heap, TakesTheRunThatFitsBest) {
  Heap heap(0, 1 << 20);
  const std::uint64_t large = heap.allocate(1024, 1)->offset;
  static_cast<void>(heap.allocate(64, 2));
  const std::uint64_t small = heap.allocate(256, 3)->offset;
  static_cast<void>(heap.allocate(64, 4));
  heap.free(large);
  heap.free(small);
  EXPECT_EQ(heap.allocate(128, 5)->offset, small);
  EXPECT_EQ(heap.allocate(128, 6)->offset, small + 128);
  EXPECT_EQ(heap.allocate(128, 7)->offset, large);
  heap.validate();
}

TEST(Heap, StaysWithinItsPart) {
  Heap heap(1 << 20, 2 << 20);
  const auto range = heap.allocate(100, 1);
  EXPECT_EQ(range->offset, 1u << 20);
  EXPECT_TRUE(heap.holds(range->offset));
  EXPECT_FALSE(heap.holds(0));
  EXPECT_FALSE(heap.holds(2 << 20));
  EXPECT_FALSE(heap.allocate(2 << 20, 2).has_value());
}

TEST(HeapDeathTest, FreesOnlyWhatIsLive) {
  Heap heap(0, 1 << 20);
  static_cast<void>(heap.allocate(1000, 1));
  EXPECT_DEATH(heap.free(64), "live");
  heap.free(0);
  EXPECT_DEATH(heap.free(0), "live");
}

// What is live, by offset: ranges must never overlap, nor be larger than asked for by more than a grain.
void fuzz(std::uint64_t seed) {
  Rng rng(seed);
  const std::uint64_t begin = rng.below(3) * kPage;
  const std::uint64_t end = begin + rng.between(4, 2000) * kPage;
  Heap heap(begin, end);
  std::map<std::uint64_t, std::uint64_t> live;
  std::uint64_t live_bytes = 0;
  for (int step = 0; step < 600; ++step) {
    if (rng.chance(11, 20)) {
      const std::uint64_t bytes = rng.chance(1, 10)  ? rng.between(1, (end - begin) / 2)
                                  : rng.chance(1, 2) ? 1000 * rng.between(1, 8)
                                                     : rng.between(1, 20'000);
      const auto range = heap.allocate(bytes, static_cast<std::uint64_t>(step));
      if (!range) {
        ASSERT_LT(end - begin - live_bytes, end - begin) << "refused while empty, seed " << seed;
        continue;
      }
      ASSERT_EQ(range->bytes, Heap::round_up(bytes));
      ASSERT_TRUE(range->offset >= begin && range->offset + range->bytes <= end);
      const auto after = live.lower_bound(range->offset);
      if (after != live.end()) {
        ASSERT_LE(range->offset + range->bytes, after->first);
      }
      if (after != live.begin()) {
        ASSERT_LE(std::prev(after)->first + std::prev(after)->second, range->offset);
      }
      live.emplace(range->offset, range->bytes);
      live_bytes += range->bytes;
    } else if (!live.empty()) {
      const auto which = std::next(live.begin(), static_cast<std::ptrdiff_t>(rng.below(live.size())));
      ASSERT_EQ(heap.free(which->first).bytes, which->second);
      live_bytes -= which->second;
      live.erase(which);
    }
    if (rng.chance(1, 50)) heap.step();
    ASSERT_EQ(heap.live_bytes(), live_bytes);
    heap.validate();
  }
  while (!live.empty()) {
    heap.free(live.begin()->first);
    live.erase(live.begin());
  }
  heap.validate();
  ASSERT_TRUE(heap.allocate(end - begin, 1).has_value()) << "empty, but in pieces, seed " << seed;
}

TEST(Heap, AgreesWithAModel) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    fuzz(seed);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace ebb
