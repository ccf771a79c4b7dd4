// The simulated world is itself checked: it must catch what it claims to, or the tests on top of it prove nothing.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "sim/event_queue.h"
#include "sim/scenario.h"
#include "sim/sim_flash.h"
#include "sim/sim_memory.h"

namespace ebb {
namespace {

constexpr std::size_t kBytes = 64;

class SimTest : public ::testing::Test {
 protected:
  void store(ExtentIndex extent, std::byte value) {
    ASSERT_EQ(memory_.create(FrameIndex(3)), Status::kOk);
    for (std::byte& byte : memory_.home(FrameIndex(3))) byte = value;
    ASSERT_EQ(transfer(true, extent, FrameIndex(3)), Status::kOk);
    memory_.destroy(FrameIndex(3));
  }
  Status transfer(bool write, ExtentIndex extent, FrameIndex frame) {
    flash_.submit({write, 7, extent.value() * kBytes, memory_.home(frame)});
    flash_.wait(std::chrono::seconds(1));
    std::array<RawCompletion, 2> completions;
    EXPECT_EQ(flash_.poll(completions), 1u);
    EXPECT_EQ(completions[0].token, 7u);
    return completions[0].status;
  }

  FaultPlan plan_;
  NthFault nth_;
  EventLog log_;
  VirtualClock clock_;
  SimMemory memory_{{kBytes, 4, 4, 1}, plan_, nth_, log_};
  SimFlash flash_{{kBytes, 2, 1}, plan_, nth_, memory_, clock_, log_};
};
using SimDeathTest = SimTest;

TEST(EventQueue, IsInOrderOfTimeThenOfAddition) {
  EventQueue<int> queue;
  queue.add(20, 1);
  queue.add(10, 2);
  queue.add(20, 3);
  queue.add(10, 4);
  std::vector<int> order;
  while (!queue.empty()) order.push_back(queue.take());
  EXPECT_EQ(order, (std::vector<int>{2, 4, 1, 3}));
}

TEST_F(SimTest, WhoWaitsIsWokenByAttachWakeAndFail) {
  ASSERT_EQ(memory_.create(FrameIndex(0)), Status::kOk);
  memory_.await(BlockIndex(0));
  memory_.await(BlockIndex(1));
  memory_.await(BlockIndex(2));
  EXPECT_EQ(memory_.waiting(), 3u);
  memory_.attach(FrameIndex(0), BlockIndex(0));
  memory_.wake(BlockIndex(1));
  memory_.fail(BlockIndex(2));
  EXPECT_EQ(memory_.waiting(), 0u);
  EXPECT_TRUE(memory_.present(BlockIndex(0)));
  EXPECT_TRUE(memory_.failed(BlockIndex(2)));
}

TEST_F(SimTest, ContentMovesWithTheFrame) {
  ASSERT_EQ(memory_.create(FrameIndex(0)), Status::kOk);
  memory_.attach(FrameIndex(0), BlockIndex(2));
  memory_.bytes(BlockIndex(2))[5] = std::byte{42};
  memory_.pin(BlockIndex(2));
  EXPECT_EQ(memory_.detach(BlockIndex(2), FrameIndex(0)), Status::kBusy);
  memory_.unpin_all();
  EXPECT_EQ(memory_.detach(BlockIndex(2), FrameIndex(0)), Status::kOk);
  EXPECT_EQ(memory_.home(FrameIndex(0))[5], std::byte{42});
}

TEST_F(SimDeathTest, MemoryPunishesWhatAMachineWould) {
  ASSERT_EQ(memory_.create(FrameIndex(0)), Status::kOk);
  ASSERT_EQ(memory_.create(FrameIndex(1)), Status::kOk);
  memory_.attach(FrameIndex(0), BlockIndex(0));
  EXPECT_DEATH(memory_.attach(FrameIndex(1), BlockIndex(0)), "internal error");  // onto a present block
  EXPECT_DEATH(memory_.attach(FrameIndex(0), BlockIndex(1)), "internal error");  // from under another
  EXPECT_DEATH(memory_.attach(FrameIndex(2), BlockIndex(1)), "internal error");  // of no frame
  EXPECT_DEATH(static_cast<void>(memory_.detach(BlockIndex(1), FrameIndex(1))), "internal error");
  EXPECT_DEATH(static_cast<void>(memory_.home(FrameIndex(0))), "internal error");
  EXPECT_DEATH(memory_.destroy(FrameIndex(0)), "internal error");
  EXPECT_DEATH(static_cast<void>(memory_.create(FrameIndex(0))), "internal error");
  memory_.set_frames_limit(2);
  EXPECT_DEATH(static_cast<void>(memory_.create(FrameIndex(2))), "internal error");  // beyond the budget
  memory_.begin_transfer(memory_.home(FrameIndex(1)));
  EXPECT_DEATH(memory_.attach(FrameIndex(1), BlockIndex(1)), "transfers");
  EXPECT_DEATH(memory_.destroy(FrameIndex(1)), "transfers");
}

TEST_F(SimTest, FlashReadsBackWhatWasWritten) {
  ASSERT_EQ(flash_.reserve(2 * kBytes), Status::kOk);
  store(ExtentIndex(1), std::byte{9});
  ASSERT_EQ(memory_.create(FrameIndex(0)), Status::kOk);
  const std::uint64_t before_ns = clock_.now_ns();
  EXPECT_EQ(transfer(false, ExtentIndex(1), FrameIndex(0)), Status::kOk);
  EXPECT_LT(before_ns, clock_.now_ns());
  for (const std::byte byte : memory_.home(FrameIndex(0))) EXPECT_EQ(byte, std::byte{9});
}

TEST_F(SimTest, LanesBoundTheBandwidth) {
  plan_ = FaultPlan();
  ASSERT_EQ(flash_.reserve(2 * kBytes), Status::kOk);
  ASSERT_EQ(memory_.create(FrameIndex(0)), Status::kOk);
  ASSERT_EQ(memory_.create(FrameIndex(1)), Status::kOk);
  flash_.submit({true, 0, 0, memory_.home(FrameIndex(0))});
  flash_.submit({true, 1, kBytes, memory_.home(FrameIndex(1))});
  std::array<RawCompletion, 2> completions;
  std::size_t found = 0;
  while (found < 2) {
    flash_.wait(std::chrono::seconds(1));
    found += flash_.poll(completions);
  }
  EXPECT_GE(clock_.now_ns(), 2 * SimFlash::Config().write_ns_per_block + SimFlash::Config().latency_ns);
}

TEST_F(SimTest, PassingFaultsPassInTime) {
  ASSERT_EQ(flash_.reserve(kBytes), Status::kOk);
  store(ExtentIndex(0), std::byte{1});
  plan_[Fault::kReadError] = {1, 1};
  ASSERT_EQ(memory_.create(FrameIndex(0)), Status::kOk);
  EXPECT_EQ(transfer(false, ExtentIndex(0), FrameIndex(0)), Status::kIoError);
  EXPECT_EQ(transfer(false, ExtentIndex(0), FrameIndex(0)), Status::kIoError);
  EXPECT_EQ(transfer(false, ExtentIndex(0), FrameIndex(0)), Status::kOk);
  EXPECT_FALSE(flash_.damage(0));
}

TEST_F(SimTest, DamageStays) {
  ASSERT_EQ(flash_.reserve(2 * kBytes), Status::kOk);
  plan_[Fault::kCorruptAtRest] = {1, 1};
  store(ExtentIndex(0), std::byte{1});
  plan_ = FaultPlan();
  store(ExtentIndex(1), std::byte{1});
  plan_[Fault::kReadErrorForever] = {1, 1};
  ASSERT_EQ(memory_.create(FrameIndex(0)), Status::kOk);
  EXPECT_EQ(transfer(false, ExtentIndex(1), FrameIndex(0)), Status::kIoError);
  plan_ = FaultPlan();
  EXPECT_EQ(transfer(false, ExtentIndex(1), FrameIndex(0)), Status::kIoError);
  EXPECT_EQ(flash_.damage(0), Fault::kCorruptAtRest);
  EXPECT_EQ(flash_.damage(1), Fault::kReadErrorForever);
  int flipped = 0;
  EXPECT_EQ(transfer(false, ExtentIndex(0), FrameIndex(0)), Status::kOk);
  for (const std::byte byte : memory_.home(FrameIndex(0))) flipped += byte != std::byte{1} ? 1 : 0;
  EXPECT_EQ(flipped, 1);
}

// What a write says and what it does.
TEST_F(SimTest, WritesGoAstray) {
  ASSERT_EQ(flash_.reserve(2 * kBytes), Status::kOk);
  store(ExtentIndex(0), std::byte{1});
  store(ExtentIndex(1), std::byte{2});
  const auto holds = [&](std::uint32_t extent) {
    std::vector<std::byte> bytes(kBytes);
    EXPECT_EQ(flash_.read_now({false, 0, extent * kBytes, bytes}), Status::kOk);
    return bytes;
  };
  plan_[Fault::kLostWrite] = {1, 1};
  store(ExtentIndex(0), std::byte{3});
  EXPECT_EQ(holds(0), std::vector(kBytes, std::byte{1}));
  EXPECT_EQ(flash_.damage(0), Fault::kLostWrite);
  plan_ = FaultPlan();
  store(ExtentIndex(0), std::byte{4});
  EXPECT_FALSE(flash_.damage(0));
  plan_[Fault::kTornWrite] = {1, 1};
  store(ExtentIndex(0), std::byte{5});
  EXPECT_EQ(holds(0).front(), std::byte{5});
  EXPECT_EQ(holds(0).back(), std::byte{4});
  plan_ = FaultPlan();
  plan_[Fault::kMisdirectedWrite] = {1, 1};
  for (int i = 0; i < 50 && !flash_.damage(1); ++i) store(ExtentIndex(0), std::byte{6});
  EXPECT_EQ(holds(1), std::vector(kBytes, std::byte{6}));
  EXPECT_NE(holds(0), std::vector(kBytes, std::byte{6}));
}

TEST_F(SimTest, BitsRotWhereTheyLie) {
  ASSERT_EQ(flash_.reserve(2 * kBytes), Status::kOk);
  store(ExtentIndex(0), std::byte{1});
  plan_[Fault::kBitRot] = {1, 1};
  for (int i = 0; i < 50 && !flash_.damage(0); ++i) store(ExtentIndex(1), std::byte{2});
  EXPECT_EQ(flash_.damage(0), Fault::kBitRot);
  EXPECT_FALSE(flash_.damage(1)) << "it was being written each time";
}

TEST_F(SimTest, StaleReadsPass) {
  ASSERT_EQ(flash_.reserve(kBytes), Status::kOk);
  store(ExtentIndex(0), std::byte{1});
  store(ExtentIndex(0), std::byte{2});
  plan_[Fault::kStaleRead] = {1, 1};
  ASSERT_EQ(memory_.create(FrameIndex(0)), Status::kOk);
  for (const std::byte expected : {std::byte{1}, std::byte{1}, std::byte{2}}) {
    EXPECT_EQ(transfer(false, ExtentIndex(0), FrameIndex(0)), Status::kOk);
    EXPECT_EQ(memory_.home(FrameIndex(0))[5], expected);
  }
}

TEST_F(SimTest, DevicesTakeTheirTime) {
  ASSERT_EQ(flash_.reserve(kBytes), Status::kOk);
  store(ExtentIndex(0), std::byte{1});
  const std::uint64_t usual_ns = clock_.now_ns();
  ASSERT_EQ(memory_.create(FrameIndex(0)), Status::kOk);
  const auto takes = [&](Fault fault) {
    plan_ = FaultPlan();
    plan_[fault] = {1, 1};
    const std::uint64_t before_ns = clock_.now_ns();
    EXPECT_EQ(transfer(false, ExtentIndex(0), FrameIndex(0)), Status::kOk);
    EXPECT_EQ(memory_.home(FrameIndex(0)).back(), std::byte{1});
    return clock_.now_ns() - before_ns;
  };
  EXPECT_LT(SimFlash::Config().latency_ns * 2, takes(Fault::kSlow));
  EXPECT_LT(0u, takes(Fault::kShortTransfer));
  EXPECT_LT(usual_ns, takes(Fault::kStall));
  EXPECT_LE(flash_.stalled_until_ns(), clock_.now_ns());
}

TEST_F(SimTest, ReserveIsShort) {
  plan_.extents_available = 3;
  EXPECT_EQ(flash_.reserve(4 * kBytes), Status::kNoSpace);
  EXPECT_EQ(flash_.reserve(3 * kBytes), Status::kOk);
}

TEST_F(SimDeathTest, FlashPunishesWhatADeviceWouldNot) {
  ASSERT_EQ(flash_.reserve(2 * kBytes), Status::kOk);
  for (std::uint32_t i = 0; i < 3; ++i) ASSERT_EQ(memory_.create(FrameIndex(i)), Status::kOk);
  const auto frame = [&](std::uint32_t i) { return memory_.home(FrameIndex(i)); };
  EXPECT_DEATH(flash_.submit({false, 0, 0, frame(0)}), "written");           // never written
  EXPECT_DEATH(flash_.submit({true, 0, 2 * kBytes, frame(0)}), "extents_");  // not reserved
  flash_.submit({true, 0, 0, frame(0)});
  EXPECT_DEATH(flash_.submit({true, 1, 0, frame(1)}), "writer");          // twice at once
  EXPECT_DEATH(flash_.submit({true, 1, kBytes, frame(0)}), "transfers");  // a buffer twice
  std::array<RawCompletion, 1> completions;
  const auto finish = [&] {
    flash_.wait(std::chrono::seconds(1));
    static_cast<void>(flash_.poll(completions));
  };
  EXPECT_DEATH(
      {
        frame(0)[0] ^= std::byte{1};
        finish();
      },
      "equal");  // changed while it is written
  flash_.submit({true, 1, kBytes, frame(1)});
  EXPECT_DEATH(flash_.submit({true, 2, kBytes, frame(2)}), "depth");
}

TEST(NthFault, FiresOnce) {
  NthFault nth(2);
  EXPECT_FALSE(nth.fires());
  EXPECT_FALSE(nth.fires());
  EXPECT_FALSE(nth.fired());
  EXPECT_TRUE(nth.fires());
  EXPECT_TRUE(nth.fired());
  EXPECT_FALSE(nth.fires());
}

TEST(EventLog, TellsOrderAndValuesApart) {
  EventLog first, second, third;
  first.note(EventLog::Kind::kAttach, 1, 2);
  second.note(EventLog::Kind::kAttach, 2, 1);
  third.note(EventLog::Kind::kAttach, 1, 2);
  EXPECT_NE(first.hash(), second.hash());
  EXPECT_EQ(first.hash(), third.hash());
}

TEST(Scenario, IsReadFromJson) {
  const Scenario scenario = Scenario::parse(
      R"({"about": "x", "seed": 7, "runs": 3, "frames": 12, "policy": "on_demand",
          "faults": {"busy": "1/4", "extents_available": 9}})",
      "name");
  EXPECT_EQ(scenario.name, "name");
  EXPECT_EQ(scenario.seed, 7u);
  EXPECT_EQ(scenario.frames, 12u);
  EXPECT_EQ(scenario.steps, Scenario().steps);
  EXPECT_EQ(scenario.policy, "on_demand");
  EXPECT_EQ(scenario.faults[Fault::kBusy], (Ratio{1, 4}));
  EXPECT_EQ(scenario.faults.extents_available, 9u);
}

TEST(Scenario, RefusesWhatItDoesNotKnow) {
  for (const char* text : {"", "[]", "{", R"({"sead": 1})", R"({"seed": -1})", R"({"seed": "1"})",
                           R"({"frames": 1e12})", R"({"faults": {"busy": "1/0"}})", R"({"faults": {"busy": "3/2"}})",
                           R"({"faults": {"busy": 0.5}})", R"({"faults": {"bussy": "1/2"}})", R"({"policy": 3})"}) {
    EXPECT_THROW(static_cast<void>(Scenario::parse(text, "bad")), Error) << text;
  }
  EXPECT_THROW(static_cast<void>(Scenario::load("no/such/file.json")), Error);
}

}  // namespace
}  // namespace ebb
