// Iterations found in programs that do not mark them.
#include "plan/period.h"

#include <gtest/gtest.h>

#include <vector>

namespace ebb {
namespace {

constexpr std::uint64_t kWeights = 100;  // serials below are of weights

// Plays a model of `layers` layers, three operators each, on weights of their own; returns after which launches an
// iteration was said to end.
std::vector<std::uint32_t> play(Period& period, std::uint32_t layers, std::uint32_t iterations, std::uint64_t& serial,
                                std::uint32_t& launches) {
  std::vector<std::uint32_t> ends;
  for (std::uint32_t i = 0; i < iterations; ++i) {
    for (std::uint32_t layer = 0; layer < layers; ++layer) {
      for (std::uint64_t op = 0; op < 3; ++op) {
        const Touch weight{layer + 1, 4096, {}};
        const Touch activation{++serial, 4096, {}};
        const std::vector<Touch> touches{weight, activation};
        if (period.begins(op, touches, serial)) ends.push_back(launches);
        ++launches;
      }
    }
  }
  return ends;
}

TEST(Period, IsThatOfTheModelAndNotOfItsLayers) {
  Period period;
  std::uint64_t serial = kWeights;
  std::uint32_t launches = 0;
  play(period, 12, 20, serial, launches);  // at first all layers look the same
  const auto ends = play(period, 12, 6, serial, launches);
  EXPECT_EQ(period.length(), 36u);
  ASSERT_EQ(ends.size(), 6u);
  for (std::size_t i = 1; i < ends.size(); ++i) EXPECT_EQ(ends[i] - ends[i - 1], 36u);
}

TEST(Period, LayersOfTheFirstIterationAreNone) {
  Period period;
  std::uint64_t serial = 0;
  std::uint32_t launches = 0;
  EXPECT_TRUE(play(period, 100, 1, serial, launches).empty());  // whose weights are as new as what they make
  EXPECT_EQ(period.length(), 0u);
}

TEST(Period, ThereIsNoneInAProgramThatNeverRepeatsItself) {
  Period period;
  for (std::uint64_t i = 0; i < 3 * Period::kLaunchesMax; ++i) {
    EXPECT_FALSE(period.begins(i, {}, i));
  }
  EXPECT_EQ(period.length(), 0u);
}

// A token of a model whose weights are in a file.
Recording token(std::uint32_t layers) {
  Recording recording;
  recording.begin(1, 1);
  for (std::uint32_t layer = 0; layer < layers; ++layer) {
    const std::vector<Touch> touches{{kLastingSerials + layer, 4096, {}, false}};
    const std::vector<BlockIndex> first_blocks{BlockIndex(0)};
    recording.add_launch(9, touches, first_blocks);
  }
  return recording;
}

TEST(Period, AnIterationThatWasForetoldIsFoundFromTheFirst) {
  constexpr std::uint32_t kLayers = 30;
  Period period;
  std::uint64_t serial = 0;
  const auto run = [&](std::uint64_t op) {
    std::vector<std::uint32_t> ends;
    for (std::uint32_t layer = 0; layer < kLayers; ++layer) {
      const std::vector<Touch> touches{{kLastingSerials + layer, 4096, {}, false}, {++serial, 4096, {}, false}};
      if (period.begins(op, touches, serial)) ends.push_back(layer);
      const std::vector<Touch> between{{++serial, 4096, {}, false}};
      EXPECT_FALSE(period.begins(5, between, serial));
    }
    return ends;
  };
  const auto setup = run(1);
  EXPECT_TRUE(setup.empty());
  period.foretell(token(kLayers));
  EXPECT_EQ(period.length(), kLayers);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(run(9), std::vector<std::uint32_t>{0});
}

TEST(Period, AShortLoopIsNotAnIteration) {
  Period period;
  for (std::uint64_t i = 0; i < 1000; ++i) EXPECT_FALSE(period.begins(i % (Period::kLaunchesMin - 1), {}, 0));
  EXPECT_EQ(period.length(), 0u);
}

TEST(Period, AnotherModelIsFoundAfterTheFirst) {
  Period period;
  std::uint64_t serial = kWeights;
  std::uint32_t launches = 0;
  play(period, 12, 40, serial, launches);
  EXPECT_EQ(period.length(), 36u);
  const auto ends = play(period, 20, 60, serial, launches);
  ASSERT_GE(ends.size(), 50u);
  for (std::size_t i = 30; i < ends.size(); ++i) EXPECT_EQ(ends[i] - ends[i - 1], 60u);
}

TEST(Period, AnIterationOnLastingTensorsIsTheSameWithMoreOfOthers) {
  Period period;
  constexpr std::uint32_t kLayers = 40;
  const auto pass = [&](bool longer) {
    std::uint32_t begun = 0;
    for (std::uint32_t layer = 0; layer < kLayers; ++layer) {
      std::vector<Touch> touches{{kLastingSerials + layer, 4096, {}}};
      if (longer) touches.push_back({1, 4096, {}});
      begun += period.begins(7, touches, 0) ? 1 : 0;
    }
    return begun;
  };
  pass(true);  // a prompt, and what it makes is large enough to be managed
  EXPECT_EQ(pass(false), 1u);
  EXPECT_EQ(pass(false), 1u);
  EXPECT_EQ(pass(true), 1u);
  EXPECT_EQ(pass(false), 1u);
}

// Passes of a model whose weights are lasting, from number `first` on, with a launch on something short-lived after
// each layer; returns how many iterations began in them.
std::uint32_t pass(Period& period, std::uint32_t first, std::uint32_t layers, std::uint32_t passes) {
  std::uint32_t begun = 0;
  for (std::uint32_t i = 0; i < passes; ++i) {
    for (std::uint32_t layer = 0; layer < layers; ++layer) {
      const std::vector<Touch> touches{{kLastingSerials + first + layer, 4096, {}}};
      begun += period.begins(7, touches, 0) ? 1 : 0;
      begun += period.begins(8, std::vector<Touch>{{1, 4096, {}}}, 0) ? 1 : 0;
    }
  }
  return begun;
}

TEST(Period, OfSeveralModelsIsThatOfTheLongestThatRepeats) {
  Period period;
  constexpr std::uint32_t kEncoder = 40, kDenoiser = 90, kDecoder = 30;
  const auto prompt = [&] {
    pass(period, 0, kEncoder, 2);
    const std::uint32_t begun = pass(period, 1000, kDenoiser, 6);
    return begun + pass(period, 2000, kDecoder, 1);
  };
  EXPECT_EQ(prompt(), 5u);  // all but the first, which shows what is repeated
  for (std::uint32_t i = 0; i < 4; ++i) EXPECT_EQ(prompt(), 6u) << i;
  EXPECT_EQ(period.length(), kDenoiser);
}

}  // namespace
}  // namespace ebb
