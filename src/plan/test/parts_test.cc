// Where tensors are cut that launches use in parts, and what a trace and a recording then say.
#include "plan/parts.h"

#include <gtest/gtest.h>

#include "plan/recording.h"
#include "plan/trace_draft.h"

namespace ebb {
namespace {

TEST(Parts, WhatIsUsedAsAWholeIsOnePiece) {
  Parts parts;
  parts.add({0, 8});
  parts.add({0, 8});
  EXPECT_EQ(parts.pieces().count(), 1u);
  EXPECT_EQ(parts.pieces().bytes(1001, 0), 1001u);
  EXPECT_EQ(Parts().pieces().count(), 1u) << "of what nothing uses, too";
}

TEST(Parts, SlicesCutAndWhatIsLargerTouchesThem) {
  Parts parts;
  parts.add({0, 9});
  for (std::uint32_t i = 0; i < 3; ++i) parts.add({3 * i, 3});
  parts.add({1, 7});  // more than half: no reason to cut
  const Cuts pieces = parts.pieces();
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

TEST(Parts, ABlockOfTwoSlicesIsAPieceOfBoth) {
  Parts parts;
  parts.add({0, 5});
  parts.add({4, 5});
  parts.add({8, 4});
  const Cuts pieces = parts.pieces();
  ASSERT_EQ(pieces.count(), 5u);  // 0 to 4, 4, 5 to 8, 8, 9 to 12
  EXPECT_EQ(pieces.of({4, 5}).first, 1u);
  EXPECT_EQ(pieces.of({4, 5}).end, 4u);
}

TEST(Parts, AFewBlocksAreWholeWhereverTheyLie) {
  Parts parts;
  parts.add({0, 2});
  parts.add({0, 1});
  parts.add({1, 1});
  EXPECT_EQ(parts.pieces().count(), 1u);
}

TEST(Parts, ACacheThatGrowsStaysWhole) {
  Parts parts;
  for (std::uint32_t i = 1; i <= 500; ++i) parts.add({0, i});
  EXPECT_EQ(parts.pieces().count(), 1u);
}

TEST(Parts, ALaunchTouchesThePiecesOfItsSlice) {
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
    EXPECT_EQ(trace.tensors[i].continues, i > 0);
    const auto reads = trace.reads(trace.launches[1 + i]);
    ASSERT_EQ(reads.size(), 2u);
    EXPECT_EQ(reads[0], i);
    EXPECT_EQ(reads[1], 4u);
    EXPECT_EQ(trace.writes(trace.launches[1 + i]).size(), 1u);
  }
  EXPECT_EQ(trace.reads(trace.launches[0]).size(), 4u);
}

TEST(Parts, PiecesEndTogetherWhicheverIsUsedLast) {
  TraceDraft draft;
  draft.launch(1);
  draft.allocate(7, 800);
  draft.launch(2);
  draft.use(7, 800, {0, 4}, false);
  draft.use(7, 800, {4, 4}, false);
  draft.free(7);  // told before the launch that still uses a piece
  draft.launch(3);
  draft.use(7, 800, {4, 4}, false);
  draft.end_iteration();
  const Trace trace = draft.finish({});
  EXPECT_EQ(check(trace), "");
  ASSERT_EQ(trace.tensors.size(), 2u);
  EXPECT_EQ(trace.tensors[0].freed_before, 3u);
  EXPECT_EQ(trace.tensors[1].freed_before, 3u);
}

TEST(Parts, ARecordingLinksTheUsesOfAPieceAndNotOfItsTensor) {
  Recording recording;
  recording.begin(1, 1);
  const auto launch = [&](std::uint64_t op, std::uint32_t first, std::uint32_t blocks) {
    const Touch touch{kLastingSerials, 8 << 20, {BlockIndex(40 + first), blocks}, true};
    const BlockIndex at(40);
    recording.add_launch(op, {&touch, 1}, {&at, 1});
    recording.add_place(kLastingSerials, {BlockIndex(40), 8});
  };
  launch(1, 0, 8);
  for (std::uint32_t i = 0; i < 4; ++i) {
    launch(2, 2 * i, 2);
    launch(3, 2 * i, 2);
  }
  recording.finish();
  ASSERT_TRUE(recording.is_cut(0));
  const auto pieces_of = [&](Recording::Position position) {
    std::vector<Recording::Piece> pieces;
    recording.for_pieces(recording.uses(recording.event(position))[0], [&](const auto& it) { pieces.push_back(it); });
    return pieces;
  };
  ASSERT_EQ(pieces_of(0).size(), 4u);
  for (std::uint32_t i = 0; i < 4; ++i) {
    EXPECT_EQ(pieces_of(0)[i].next, 1 + 2 * i);
    EXPECT_EQ(pieces_of(0)[i].first, 0u);
    EXPECT_EQ(pieces_of(1 + 2 * i).size(), 1u);
    EXPECT_EQ(pieces_of(1 + 2 * i)[0].next, 2 + 2 * i);
    EXPECT_EQ(pieces_of(2 + 2 * i)[0].next, Recording::kNever);
  }
}

}  // namespace
}  // namespace ebb
