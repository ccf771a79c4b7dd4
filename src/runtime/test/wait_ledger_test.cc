// Accounts of waits: rows by name, sums that agree, tables that are full, and what a note is true of.
#include "runtime/waits/wait_ledger.h"

#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <string>

#include "runtime/pace/stall_clock.h"
#include "runtime/waits/memory_notes.h"

namespace ebb {
namespace {

class Ledger : public testing::Test {
 protected:
  Ledger() : table_(std::make_unique<WaitTable>()) { ledger_.open(table_.get()); }
  static std::uint64_t sum(const std::vector<WaitEntry>& entries) {
    return std::accumulate(entries.begin(), entries.end(), std::uint64_t{0},
                           [](std::uint64_t all, const WaitEntry& entry) { return all + entry.total_ns(); });
  }

  std::unique_ptr<WaitTable> table_;
  WaitLedger ledger_;
};

TEST_F(Ledger, ChargesOperatorModuleKindAndCauseAlike) {
  ledger_.name_op(7, "aten::mm");
  ledger_.charge({ledger_.op(7), ledger_.module("layer.3"), TensorKind::kParameter, WaitCause::kLate}, 30);
  ledger_.charge({ledger_.op(7), ledger_.module("layer.4"), TensorKind::kGradient, WaitCause::kNoFrame}, 12);
  ledger_.charge({ledger_.op(0), ledger_.module(""), TensorKind::kOther, WaitCause::kFault}, 5);
  const WaitReport report = ledger_.report();
  EXPECT_EQ(report.total_ns, 47u);
  EXPECT_EQ(sum(report.operators), 47u);
  EXPECT_EQ(sum(report.modules), 47u);
  EXPECT_EQ(std::accumulate(report.kind_ns.begin(), report.kind_ns.end(), std::uint64_t{0}), 47u);
  ASSERT_EQ(report.operators.size(), 2u);
  EXPECT_EQ(report.operators[0].name, "aten::mm");
  EXPECT_EQ(report.operators[0].stall_ns[static_cast<std::size_t>(WaitCause::kNoFrame)], 12u);
  EXPECT_EQ(report.modules[0].name, "layer.3");
  EXPECT_EQ(report.modules[2].name, "(no module)");
}

TEST_F(Ledger, WhatFindsNoRowIsAmongTheOthers) {
  constexpr std::uint64_t kMany = 3000;
  for (std::uint64_t op = 1; op <= kMany; ++op) ledger_.charge({ledger_.op(op), 0, {}, {}}, 1);
  const WaitReport report = ledger_.report();
  EXPECT_EQ(sum(report.operators), kMany);
  EXPECT_EQ(report.operators[0].name, "(others)");
  EXPECT_EQ(report.operators[0].total_ns(), kMany - (WaitRows<1024>::kMax - 2));
}

TEST_F(Ledger, ALongNameKeepsItsEnd) {
  const std::string name = std::string(200, 'x') + ".mlp.down";
  ledger_.charge({0, ledger_.module(name), {}, {}}, 1);
  const std::string shown = ledger_.report().modules[0].name;
  EXPECT_EQ(shown.size(), WaitRow::kNameMax - 1);
  EXPECT_EQ(shown.substr(0, 3), "...");
  EXPECT_EQ(shown.substr(shown.size() - 9), ".mlp.down");
}

TEST_F(Ledger, WithoutATableNothingIsCharged) {
  ledger_.detach();
  ledger_.charge({ledger_.op(7), ledger_.module("m"), {}, {}}, 1);
  EXPECT_EQ(table_->cause_ns[0], 0u);
}

TEST(StallClockShares, AddUpToTheTotalWhereWaitsOverlap) {
  StallClock clock;
  clock.begin(100);
  clock.begin(130);
  std::uint64_t shares = clock.take(140);
  shares += clock.end(160);
  EXPECT_EQ(clock.total_ns(170), 70u);
  shares += clock.end(180);
  EXPECT_EQ(shares, 80u);
  EXPECT_EQ(clock.total_ns(500), 80u);
}

TEST(MemoryNotes, FindsWhatLiesThere) {
  MemoryNotes notes;
  static_cast<void>(
      notes.replace({{300, 50, 2, TensorKind::kGradient, "b", {}}, {100, 50, 1, TensorKind::kParameter, "a", {}}}));
  EXPECT_EQ(notes.find(100, 101)->name, "a");
  EXPECT_EQ(notes.find(120, 200)->name, "a");
  EXPECT_EQ(notes.find(140, 310)->name, "b");
  EXPECT_EQ(notes.find(150, 300), nullptr);
  EXPECT_EQ(notes.find(0, 100), nullptr);
}

TEST(MemoryNotes, WhatIsToldTwiceCountsOnce) {
  MemoryNotes notes;
  static_cast<void>(notes.replace(
      {{100, 50, 1, TensorKind::kParameter, "first", {}}, {100, 50, 1, TensorKind::kParameter, "tied", {}}}));
  ASSERT_EQ(notes.all().size(), 1u);
  EXPECT_EQ(notes.all()[0].name, "first");
}

TEST_F(Ledger, KeepsTheLongestWaits) {
  constexpr std::uint64_t kMany = WaitTable::kLongestMax + 100;
  const std::uint32_t op = (ledger_.name_op(7, "aten::mm"), ledger_.op(7));
  for (std::uint64_t i = 0; i < kMany; ++i) ledger_.ended({op, 0, {}, WaitCause::kFault}, 1000 * i, 1000 * i + i + 1);
  const WaitReport report = ledger_.report();
  ASSERT_EQ(report.longest.size(), WaitTable::kLongestMax);
  EXPECT_EQ(report.longest.front().ns, 101u);
  EXPECT_EQ(report.longest.back().ns, kMany);
  EXPECT_EQ(report.longest.back().op, "aten::mm");
  EXPECT_EQ(report.longest.back().cause, WaitCause::kFault);
}

}  // namespace
}  // namespace ebb
