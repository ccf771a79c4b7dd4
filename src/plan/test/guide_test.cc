// Guides: which event of a trace a program is at, and what its allocations are there.
#include "plan/guide/guide.h"

#include <gtest/gtest.h>

#include <vector>

#include "plan/guide/make_guide.h"

namespace ebb {
namespace {

constexpr std::uint64_t kBlock = 64;
constexpr std::uint64_t kSmall = 8;  // less is not managed

// One allocation after the other, never reusing an address.
class Line final : public GuidePlaces {
 public:
  Place allocate(std::uint64_t bytes, std::uint64_t) override {
    if (bytes < kSmall) return {};
    const std::uint64_t blocks = (bytes + kBlock - 1) / kBlock;
    const Place place{
        next_ * kBlock, bytes, {BlockIndex(static_cast<std::uint32_t>(next_)), static_cast<std::uint32_t>(blocks)}};
    next_ += blocks;
    return place;
  }
  void free(std::uint64_t) override {}
  void step() override {}

 private:
  std::uint64_t next_ = 0;
};

// A trace as a program writes it; operators are numbered as they come.
class Script {
 public:
  static constexpr std::uint32_t kMultiply = 0, kAdd = 1, kUpdate = 2;

  Script() { trace_.ops = {"multiply", "add", "update"}; }
  std::uint32_t tensor(std::uint64_t bytes) {
    Trace::Tensor tensor;
    tensor.id = static_cast<std::uint32_t>(trace_.tensors.size());
    tensor.bytes = bytes;
    trace_.tensors.push_back(tensor);
    return tensor.id;
  }
  std::uint32_t alloc(std::uint64_t bytes) {
    const std::uint32_t made = tensor(bytes);
    trace_.tensors[made].allocated_before = here();
    return made;
  }
  void free(std::uint32_t tensor) { trace_.tensors[tensor].freed_before = here(); }
  void launch(std::uint32_t op, const std::vector<std::uint32_t>& reads, const std::vector<std::uint32_t>& writes) {
    Trace::Launch launch;
    launch.op = op;
    launch.first_use = static_cast<std::uint32_t>(trace_.uses.size());
    launch.reads = static_cast<std::uint32_t>(reads.size());
    launch.writes = static_cast<std::uint32_t>(writes.size());
    launch.ns = 1000;
    trace_.uses.insert(trace_.uses.end(), reads.begin(), reads.end());
    trace_.uses.insert(trace_.uses.end(), writes.begin(), writes.end());
    trace_.launches.push_back(launch);
  }
  void step() { trace_.steps.push_back(here()); }
  std::unique_ptr<Guide> guide() {
    EXPECT_EQ(check(trace_), "");
    Line places;
    return make_guide(trace_, places, [](std::uint32_t op) { return op; });
  }

 private:
  Trace::LaunchIndex here() const { return static_cast<Trace::LaunchIndex>(trace_.launches.size()); }
  Trace trace_;
};

Touch touch(std::uint64_t serial) { return {serial, 1, {BlockIndex(static_cast<std::uint32_t>(serial)), 1}}; }

std::vector<Touch> touches(const std::vector<std::uint64_t>& serials) {
  std::vector<Touch> all;
  for (const std::uint64_t serial : serials) all.push_back(touch(serial));
  return all;
}

// Two steps over one weight: y = multiply(x, w); z = add(y, y); update w by z.
struct Training {
  Training() {
    weight = script.alloc(1000);
    for (int step = 0; step < 2; ++step) {
      const std::uint32_t x = script.alloc(100), y = script.tensor(200), z = script.tensor(300);
      script.launch(Script::kMultiply, {x, weight}, {y});
      script.launch(Script::kAdd, {y}, {z});
      script.free(y);
      script.launch(Script::kUpdate, {weight, z}, {weight});
      script.free(x);
      script.free(z);
      script.step();
    }
    guide = script.guide();
  }
  Script script;
  std::uint32_t weight = 0;
  std::unique_ptr<Guide> guide;
};

TEST(Guide, FollowsTheProgramThatItTellsOf) {
  Training training;
  Guide& guide = *training.guide;
  const Recording& recording = guide.recording();
  std::uint64_t serial = 1;
  const std::uint64_t weight = serial++;
  // It is first used by the first launch.
  const Recording::Position first = guide.allocated(weight, 1000);
  ASSERT_NE(first, Recording::kNever);
  EXPECT_EQ(recording.event(first).op, Script::kMultiply);
  for (int step = 0; step < 2; ++step) {
    EXPECT_FALSE(guide.over());
    const std::uint64_t x = serial++, y = serial++, z = serial++;
    static_cast<void>(guide.allocated(x, 100));
    const auto multiplied = guide.launched(Script::kMultiply, touches({weight, x}));  // whatever the order
    ASSERT_NE(multiplied, Recording::kNever);
    ASSERT_EQ(guide.operands().size(), 2u);
    EXPECT_EQ(guide.operands()[0].allocation, x);
    EXPECT_EQ(guide.operands()[1].allocation, weight);
    EXPECT_NE(guide.allocated(y, 200), Recording::kNever);
    const auto added = guide.launched(Script::kAdd, touches({y, y}));
    ASSERT_NE(added, Recording::kNever);
    EXPECT_NE(guide.allocated(z, 300), Recording::kNever);
    guide.freed(y);
    const auto updated = guide.launched(Script::kUpdate, touches({weight, z}));
    ASSERT_NE(updated, Recording::kNever);
    // After the update the weight is needed by the next step, also by the one that is not in the guide.
    const auto uses = recording.uses(recording.event(updated));
    const std::uint64_t next = guide.next_need(uses[0]);
    if (step == 0) {
      EXPECT_EQ(recording.event(static_cast<Recording::Position>(next)).op, Script::kMultiply);
    } else {
      EXPECT_GE(next, recording.size());
    }
    guide.freed(x);
    guide.freed(z);
  }
  EXPECT_TRUE(guide.over());
  EXPECT_FALSE(guide.lost());
}

// A real program launches more than a trace of fake tensors names: operators made of others, views, their insides.
TEST(Guide, PassesOverWhatItDoesNotKnow) {
  Training training;
  Guide& guide = *training.guide;
  static_cast<void>(guide.allocated(1, 1000));
  static_cast<void>(guide.allocated(2, 100));
  EXPECT_EQ(guide.launched(77, touches({1})), Recording::kNever);
  EXPECT_EQ(guide.launched(Script::kUpdate, touches({1, 2})), Recording::kNever);  // of other operands
  EXPECT_EQ(guide.allocated(3, 5000), Recording::kNever);                          // scratch memory of a kernel
  EXPECT_EQ(guide.launched(Script::kAdd, touches({3})), Recording::kNever);
  EXPECT_NE(guide.launched(Script::kMultiply, touches({2, 1})), Recording::kNever);
}

// What the program leaves out is behind as soon as something after it has been seen.
TEST(Guide, GoesOnAfterWhatDoesNotCome) {
  Training training;
  Guide& guide = *training.guide;
  static_cast<void>(guide.allocated(1, 1000));
  static_cast<void>(guide.allocated(2, 300));  // z, made by an operator of another name
  const auto updated = guide.launched(Script::kUpdate, touches({1, 2}));
  ASSERT_NE(updated, Recording::kNever);
  EXPECT_GT(guide.cursor(), updated);
  EXPECT_EQ(guide.serial_of(guide.recording().uses(guide.recording().event(updated))[1].reference), 2u);
}

// Of scratch memory and the result of the same size, whichever comes first, the result is what is used later.
TEST(Guide, AResultIsToldFromScratchMemory) {
  for (const std::uint64_t result : {3u, 4u}) {
    Training training;
    Guide& guide = *training.guide;
    static_cast<void>(guide.allocated(1, 1000));
    static_cast<void>(guide.allocated(2, 100));
    ASSERT_NE(guide.launched(Script::kMultiply, touches({2, 1})), Recording::kNever);
    EXPECT_NE(guide.allocated(3, 200), Recording::kNever);
    EXPECT_NE(guide.allocated(4, 200), Recording::kNever);  // the latest counts
    ASSERT_NE(guide.launched(Script::kAdd, touches({result})), Recording::kNever) << result;
    EXPECT_EQ(guide.operands()[0].allocation, result);
    EXPECT_EQ(guide.serial_of(guide.recording().uses(guide.recording().event(guide.cursor()))[0].reference), 1u);
  }
}

TEST(Guide, IsLostWhenTheProgramDoesSomethingElse) {
  Training training;
  Guide& guide = *training.guide;
  static_cast<void>(guide.allocated(1, 1000));
  for (int i = 0; i < 100'000 && !guide.lost(); ++i) {
    EXPECT_EQ(guide.launched(77, touches({1})), Recording::kNever);
  }
  EXPECT_TRUE(guide.lost());
}

TEST(Guide, OfNothingManagedIsNone) {
  Script script;
  const std::uint32_t little = script.alloc(4);
  script.launch(Script::kAdd, {little}, {});
  script.step();
  EXPECT_EQ(script.guide(), nullptr);
}

}  // namespace
}  // namespace ebb
