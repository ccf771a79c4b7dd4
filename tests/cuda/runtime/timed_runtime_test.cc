// GpuRuntime over a device that counts its calls: what it asks for in steps that repeat, with room for all.
#include "timed_runtime.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <vector>

#include "gpu_program.h"

namespace ebb {
namespace {

// Calls cost little: what is counted does not depend on it.
constexpr TimedDevice::Costs kCosts{.create = 100,
                                    .map = 10,
                                    .permit = 10,
                                    .unmap = 10,
                                    .permit_copying_out = 0,
                                    .record = 10,
                                    .wait = 10,
                                    .query = 10,
                                    .copy = 10};

class RepeatedSteps : public testing::TestWithParam<const char*> {
 protected:
  static constexpr std::uint32_t kFrames = 256;
  static constexpr std::size_t kLayers = 6;

  void SetUp() override {
    Options options = gpu_options(kFrames, 2 * kFrames);
    options.policy = GetParam();
    opened_ = open_timed_runtime(options, kCosts);
    for (std::size_t i = 0; i < kLayers; ++i) weights_.push_back(make(2));
  }
  void* make(std::size_t blocks) {
    void* const made = opened_.runtime->allocate_on(&stream_, blocks * kGpuBlock);
    const void* const unpinned[] = {made};
    opened_.runtime->unpin_on(&stream_, unpinned);
    return made;
  }
  void give_back(void* data) { opened_.runtime->deallocate_on(data, &stream_); }
  void launch(std::uint64_t op, std::initializer_list<void*> used) {
    std::vector<Access> accesses;
    for (void* const data : used) accesses.push_back({data, kGpuBlock, data});
    const std::uint64_t ticket = opened_.runtime->announce_on(&stream_, op, accesses);
    opened_.device->run(&stream_, 20'000);
    opened_.runtime->retire(ticket);
  }
  // A forward and a backward pass. A temporary is freed before something larger is made, which cannot have its place:
  // dead memory lies beside what needs new addresses.
  void step() {
    std::vector<void*> kept;
    for (std::size_t i = 0; i < kLayers; ++i) {
      void* const temporary = make(2 + i % 2);
      launch(1, {weights_[i], temporary});
      give_back(temporary);
      kept.push_back(make(4 + i % 3));
      launch(2, {weights_[i], kept.back()});
    }
    for (std::size_t i = kLayers; i-- > 0;) {
      void* const gradient = make(3 + i % 4);
      launch(3, {weights_[i], kept[i], gradient});
      give_back(kept[i]);
      launch(4, {weights_[i], gradient});
      give_back(gradient);
    }
    opened_.runtime->step();
  }

  std::uint64_t stream_ = 0;
  TimedRuntime opened_;
  std::vector<void*> weights_;
};

TEST_P(RepeatedSteps, ChangeNoMappingFromTheThirdOn) {
  step();
  step();
  const TimedDevice::Calls before = opened_.device->calls();
  const Stats stats = opened_.runtime->stats();
  EXPECT_GT(before.mapped, 0u);
  EXPECT_EQ(stats.live_bytes, 2 * kLayers * kGpuBlock);
  EXPECT_GT(stats.resident_bytes, 3 * stats.live_bytes);  // the rest is freed, and keeps its frames
  for (int i = 0; i < 6; ++i) {
    step();
    const TimedDevice::Calls now = opened_.device->calls();
    EXPECT_EQ(now.mapped, before.mapped) << i;
    EXPECT_EQ(now.permits, before.permits) << i;
    EXPECT_EQ(now.unmapped, before.unmapped) << i;
    EXPECT_EQ(now.created, before.created) << i;
    EXPECT_EQ(now.copied_in + now.copied_out, 0u) << i;
  }
  EXPECT_EQ(opened_.runtime->stats().resident_bytes, stats.resident_bytes);
}

INSTANTIATE_TEST_SUITE_P(All, RepeatedSteps, testing::Values("window", "foresight"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace ebb
