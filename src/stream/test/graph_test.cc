// The order of launches: hazards, streams, poison, and what fits in memory together.
#include "stream/graph.h"

#include <gtest/gtest.h>

#include "stream/device.h"

namespace ebb {
namespace {

using Number = Graph::Number;

UsedBytes reads(std::uintptr_t begin, std::uintptr_t end) { return {begin, end, true, false, false}; }
UsedBytes writes(std::uintptr_t begin, std::uintptr_t end) { return {begin, end, false, true, false}; }
UsedBytes updates(std::uintptr_t begin, std::uintptr_t end) { return {begin, end, true, true, false}; }
UsedBytes overwrites(std::uintptr_t begin, std::uintptr_t end) { return {begin, end, false, true, true}; }

Graph::FailurePtr failure(const char* launch) {
  Failure made;
  made.launch = launch;
  return std::make_shared<const Failure>(made);
}

constexpr std::uint64_t kPlenty = 1'000'000;

TEST(Graph, LaunchesOfAStreamRunInOrder) {
  Graph graph(kPlenty);
  const Number first = graph.add(1, {reads(0, 8)}, {});
  const Number second = graph.add(1, {reads(0, 8)}, {});
  EXPECT_EQ(graph.take(), first);
  EXPECT_EQ(graph.take(), 0u);
  EXPECT_EQ(graph.last_of(1), second);
  EXPECT_EQ(graph.finish(first, nullptr), 1u);
  EXPECT_EQ(graph.take(), second);
  graph.finish(second, nullptr);
  EXPECT_TRUE(graph.empty());
  EXPECT_FALSE(graph.has_hazards());
  EXPECT_EQ(graph.last_of(1), 0u);
}

TEST(Graph, ReadersOfDifferentStreamsRunTogether) {
  Graph graph(kPlenty);
  for (std::uint64_t stream = 1; stream <= 3; ++stream) graph.add(stream, {reads(0, 8)}, {});
  for (int i = 0; i < 3; ++i) EXPECT_NE(graph.take(), 0u);
}

TEST(Graph, EveryHazardOrders) {
  const UsedBytes kinds[] = {reads(4, 12), writes(4, 12), updates(4, 12), overwrites(4, 12)};
  for (const UsedBytes& earlier : kinds) {
    for (const UsedBytes& later : {reads(11, 20), writes(11, 20), updates(0, 5), overwrites(0, 100)}) {
      Graph graph(kPlenty);
      const Number first = graph.add(1, {earlier}, {});
      const Number second = graph.add(2, {later}, {});
      EXPECT_EQ(graph.take(), first);
      const bool hazard = earlier.writes || later.writes;
      EXPECT_EQ(graph.take(), hazard ? 0 : second);
    }
  }
}

TEST(Graph, NeighbouringBytesAreNoHazard) {
  Graph graph(kPlenty);
  graph.add(1, {overwrites(0, 8)}, {});
  graph.add(2, {overwrites(8, 16)}, {});
  EXPECT_NE(graph.take(), 0u);
  EXPECT_NE(graph.take(), 0u);
}

TEST(Graph, AWriterWaitsForAllReadersSinceTheLastWriter) {
  Graph graph(kPlenty);
  const Number readers[] = {graph.add(1, {reads(0, 8)}, {}), graph.add(2, {reads(4, 12)}, {})};
  const Number writer = graph.add(3, {writes(0, 12)}, {});
  EXPECT_EQ(graph.take(), readers[0]);
  EXPECT_EQ(graph.take(), readers[1]);
  graph.finish(readers[1], nullptr);
  EXPECT_EQ(graph.take(), 0u);
  graph.finish(readers[0], nullptr);
  EXPECT_EQ(graph.take(), writer);
}

TEST(Graph, ALaunchMayUseTheSameBytesTwice) {
  Graph graph(kPlenty);
  const Number launch = graph.add(1, {reads(0, 8), updates(0, 8), reads(4, 6)}, {});
  EXPECT_EQ(graph.take(), launch);
  graph.finish(launch, nullptr);
  EXPECT_FALSE(graph.has_hazards());
}

TEST(Graph, WaitsForWhatItIsToldTo) {
  Graph graph(kPlenty);
  const Number first = graph.add(1, {}, {});
  const Number after[] = {first, first};
  const Number second = graph.add(2, {}, after);
  EXPECT_EQ(graph.take(), first);
  EXPECT_EQ(graph.take(), 0u);
  graph.finish(first, nullptr);
  EXPECT_EQ(graph.take(), second);
  EXPECT_NE(graph.add(3, {}, after), 0u) << "what is over is not waited for";
  EXPECT_TRUE(graph.has_ready());
}

TEST(Graph, OnlyWhatFitsTogetherRunsTogether) {
  Graph graph(10);
  const Number large = graph.add(1, {reads(0, 100)}, {});
  const Number small = graph.add(2, {reads(200, 206)}, {});
  const Number smaller = graph.add(3, {reads(300, 304)}, {});
  EXPECT_EQ(graph.take(), large) << "alone, a launch larger than memory runs";
  EXPECT_EQ(graph.take(), 0u);
  graph.finish(large, nullptr);
  EXPECT_EQ(graph.take(), small);
  EXPECT_EQ(graph.take(), smaller);
}

TEST(Graph, WhoReadsWhatAFailedLaunchShouldHaveWrittenIsPoisoned) {
  Graph graph(kPlenty);
  const Number failing = graph.add(1, {writes(0, 8)}, {});
  const Number reader = graph.add(2, {reads(4, 6), overwrites(20, 24)}, {});
  const Number second_hand = graph.add(3, {reads(20, 21)}, {});
  const Number innocent = graph.add(1, {reads(8, 16)}, {});
  const Number partly = graph.add(4, {writes(0, 8)}, {});
  EXPECT_EQ(graph.take(), failing);
  graph.finish(failing, failure("a"));
  EXPECT_EQ(graph.take(), reader);
  ASSERT_NE(graph.poison_of(reader), nullptr);
  EXPECT_EQ(graph.poison_of(reader)->launch, "a");
  graph.finish(reader, failure("b"));
  EXPECT_EQ(graph.take(), second_hand);
  EXPECT_EQ(graph.poison_of(second_hand)->launch, "b");
  EXPECT_EQ(graph.take(), innocent);
  EXPECT_EQ(graph.poison_of(innocent), nullptr);
  EXPECT_EQ(graph.take(), partly);
  EXPECT_EQ(graph.poison_of(partly), nullptr);
  graph.finish(partly, nullptr);
  EXPECT_NE(graph.poison_of(graph.add(5, {reads(0, 1)}, {})), nullptr) << "it may not have written all";
}

TEST(Graph, OverwritingEndsPoisonInWhatItOverwrites) {
  Graph graph(kPlenty);
  const Number failing = graph.add(1, {updates(0, 10)}, {});
  graph.take();
  graph.finish(failing, failure("a"));
  const Number repair = graph.add(1, {overwrites(2, 4)}, {});
  EXPECT_EQ(graph.take(), repair);
  EXPECT_EQ(graph.poison_of(repair), nullptr);
  graph.finish(repair, nullptr);
  EXPECT_EQ(graph.poison_of(graph.add(2, {reads(2, 4)}, {})), nullptr);
  EXPECT_NE(graph.poison_of(graph.add(3, {reads(2, 5)}, {})), nullptr);
  EXPECT_NE(graph.poison_of(graph.add(4, {reads(1, 3)}, {})), nullptr);
}

TEST(Graph, ForgivenessIsForLaterLaunchesOnly) {
  Graph graph(kPlenty);
  const Number failing = graph.add(1, {writes(0, 8)}, {});
  graph.take();
  graph.finish(failing, failure("a"));
  const Number queued = graph.add(2, {reads(0, 8)}, {});
  graph.forgive(1);
  const Number later = graph.add(3, {reads(0, 8)}, {});
  EXPECT_NE(graph.poison_of(queued), nullptr);
  EXPECT_EQ(graph.poison_of(later), nullptr);
  EXPECT_TRUE(graph.has_poison());
  EXPECT_EQ(graph.take(), queued);
  graph.finish(queued, failure("b"));
  EXPECT_FALSE(graph.has_poison()) << "nobody is left who would stumble over it";
}

}  // namespace
}  // namespace ebb
