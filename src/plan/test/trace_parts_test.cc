// Where tensors are cut that launches use in parts, and what a trace then says.
#include "plan/trace_parts.h"

#include <gtest/gtest.h>

#include "plan/trace_draft.h"

namespace ebb {
namespace {

TEST(TraceParts, WhatIsUsedAsAWholeIsOnePiece) {
  TraceParts parts;
  parts.add({0, 8});
  parts.add({0, 8});
  EXPECT_EQ(parts.pieces().count(), 1u);
  EXPECT_EQ(parts.pieces().bytes(1001, 0), 1001u);
  EXPECT_EQ(TraceParts().pieces().count(), 1u) << "of what nothing uses, too";
}

TEST(TraceParts, SlicesCutAndWhatIsLargerTouchesThem) {
  TraceParts parts;
  parts.add({0, 9});
  for (std::uint32_t i = 0; i < 3; ++i) parts.add({3 * i, 3});
  parts.add({1, 7});  // more than half: no reason to cut
  const TracePieces pieces = parts.pieces();
  ASSERT_EQ(pieces.count(), 3u);
  std::uint64_t sum = 0;
  for (std::uint32_t i = 0; i < 3; ++i) sum += pieces.bytes(1000, i);
  EXPECT_EQ(sum, 1000u);
  EXPECT_EQ(pieces.of({3, 3}).first, 1u);
  EXPECT_EQ(pieces.of({3, 3}).end, 2u);
  EXPECT_EQ(pieces.of({1, 7}).first, 0u);
  EXPECT_EQ(pieces.of({1, 7}).end, 3u);
  EXPECT_EQ(pieces.of({}).end, 3u);
}

TEST(TraceParts, ABlockOfTwoSlicesIsAPieceOfBoth) {
  TraceParts parts;
  parts.add({0, 5});
  parts.add({4, 5});
  parts.add({8, 4});
  const TracePieces pieces = parts.pieces();
  ASSERT_EQ(pieces.count(), 5u);  // 0 to 4, 4, 5 to 8, 8, 9 to 12
  EXPECT_EQ(pieces.of({4, 5}).first, 1u);
  EXPECT_EQ(pieces.of({4, 5}).end, 4u);
}

TEST(TraceParts, ACacheThatGrowsStaysWhole) {
  TraceParts parts;
  for (std::uint32_t i = 1; i <= 500; ++i) parts.add({0, i});
  EXPECT_EQ(parts.pieces().count(), 1u);
}

TEST(TraceParts, ALaunchTouchesThePiecesOfItsSlice) {
  TraceDraft draft;
  draft.launch(1);
  draft.use(7, 800, {0, 8}, false);
  for (std::uint32_t i = 0; i < 4; ++i) {
    draft.launch(2);
    draft.use(7, 800, {2 * i, 2}, true);
    draft.use(8, 50, {0, 1}, false);
  }
  draft.end_iteration();
  const Trace trace = draft.finish({});
  EXPECT_EQ(check(trace), "");
  ASSERT_EQ(trace.tensors.size(), 5u);
  for (std::uint32_t i = 0; i < 4; ++i) {
    EXPECT_EQ(trace.tensors[i].bytes, 200u);
    EXPECT_TRUE(trace.tensors[i].persistent);
    const auto reads = trace.reads(trace.launches[1 + i]);
    ASSERT_EQ(reads.size(), 2u);
    EXPECT_EQ(reads[0], i);
    EXPECT_EQ(reads[1], 4u);
    EXPECT_EQ(trace.writes(trace.launches[1 + i]).size(), 1u);
  }
  EXPECT_EQ(trace.reads(trace.launches[0]).size(), 4u);
}

}  // namespace
}  // namespace ebb
