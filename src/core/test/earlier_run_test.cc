// EarlierRun: what one run of a program tells the next one about its first iteration.
#include "core/earlier_run.h"

#include <gtest/gtest.h>

#include <vector>

#include "sim/simulator.h"

namespace ebb {
namespace {

constexpr std::uint64_t kBytes = 4096;
constexpr std::uint32_t kLayers = 24, kLayerBlocks = 4;

// A model of layers in a file, the later ones first, with something short-lived in between.
class Program {
 public:
  explicit Program(std::int32_t file, std::uint32_t frames = 32) : file_(file), driver_(config(frames)) {
    const FilePlace place{file, 8 * kBytes, 0};
    EXPECT_EQ(driver_.map(place, std::uint64_t{kLayers} * kLayerBlocks * kBytes, first_), Status::kOk);
  }
  void pass(std::uint64_t op = 7) {
    for (std::uint32_t layer = kLayers; layer-- > 0;) {
      std::uint64_t made = 0;
      EXPECT_EQ(driver_.allocate(kBytes, made), Status::kOk);
      const std::vector<Core::Range> ranges{
          {first_ + std::uint64_t{layer} * kLayerBlocks * kBytes, kLayerBlocks * kBytes, 0, true},
          {made, kBytes, made, true}};
      Launches& launches = driver_.core().launches();
      const std::uint64_t ticket = driver_.announce(op, ranges);
      launches.ran(1'000'000);
      // Time for what is fetched ahead.
      for (int i = 0; i < 8; ++i) driver_.turn();
      launches.retire(ticket);
      driver_.deallocate(made);
    }
  }
  FilePass told() {
    FilePass pass = earlier().describe(*driver_.core().policy().latest());
    EXPECT_FALSE(pass.uses.empty());
    for (const FilePass::Use& use : pass.uses) EXPECT_EQ(use.file, file_);
    return pass;
  }
  void expect(FilePass pass) {
    for (FilePass::Use& use : pass.uses) use.file = file_;
    earlier().expect(std::move(pass));
  }
  EarlierRun& earlier() { return driver_.core().launches().earlier_run(); }
  std::uint64_t ahead() { return driver_.core().engine().counters().prefetched; }
  std::uint64_t iterations() { return driver_.core().launches().iterations(); }
  SimDriver& driver() { return driver_; }

 private:
  static SimDriver::Config config(std::uint32_t frames) {
    SimDriver::Config config;
    config.frames = frames;
    config.blocks = 1024;
    config.policy = "foresight";
    return config;
  }
  std::int32_t file_;
  SimDriver driver_;
  std::uint64_t first_ = 0;
};

FilePass after_some_passes() {
  Program run(3);
  for (int i = 0; i < 6; ++i) run.pass();
  EXPECT_GE(run.iterations(), 4u);
  return run.told();
}

TEST(EarlierRun, TellsWhatLaunchesUseOfFiles) {
  const FilePass pass = after_some_passes();
  ASSERT_EQ(pass.launches.size(), kLayers);
  ASSERT_EQ(pass.uses.size(), kLayers);
  for (const FilePass::Launch& launch : pass.launches) {
    EXPECT_EQ(launch.op, 7u);
    EXPECT_EQ(launch.ns, 1'000'000u);
    EXPECT_EQ(launch.uses, 1u);
  }
  for (const FilePass::Use& use : pass.uses) {
    EXPECT_EQ(use.bytes, kLayerBlocks * kBytes);
    EXPECT_EQ(use.offset % kBytes, 0u);
    EXPECT_GE(use.offset, 8 * kBytes);
    EXPECT_EQ(use.blocks, kLayerBlocks);
  }
}

TEST(EarlierRun, TheFirstIterationOfTheNextRunIsPlanned) {
  const FilePass pass = after_some_passes();
  Program alone(9), told(9);
  told.expect(pass);
  alone.pass();
  told.pass();
  EXPECT_EQ(alone.iterations(), 0u);
  EXPECT_EQ(told.iterations(), 1u);
  EXPECT_EQ(alone.ahead(), 0u);
  EXPECT_GT(told.ahead(), kLayers * kLayerBlocks / 2);
  // And so are the ones after it; what it has made is the same.
  for (int i = 0; i < 5; ++i) told.pass();
  EXPECT_EQ(told.iterations(), 6u);
  FilePass again = told.told();
  for (FilePass::Use& use : again.uses) use.file = pass.uses.front().file;
  EXPECT_TRUE(again.same_as(pass));
  again.uses[5].offset += kBytes;
  EXPECT_FALSE(again.same_as(pass));
  told.driver().validate();
}

TEST(EarlierRun, AnotherProgramIsNotTakenForIt) {
  const FilePass pass = after_some_passes();
  Program run(9);
  run.expect(pass);
  for (int i = 0; i < 6; ++i) run.pass(8);
  EXPECT_GE(run.iterations(), 4u);
  EXPECT_EQ(run.told().launches.front().op, 8u);
  run.driver().validate();
}

TEST(EarlierRun, WhatIsNotMappedIsNotExpected) {
  FilePass pass = after_some_passes();
  pass.uses.back().offset = 1000 * kBytes;
  Program run(9);
  run.expect(pass);
  run.pass();
  EXPECT_EQ(run.ahead(), 0u);
  pass.uses.back().bytes = ~std::uint64_t{0};
  Program other(9);
  other.expect(pass);
  other.pass();
  EXPECT_EQ(other.ahead(), 0u);
  // Blocks beyond those that there are.
  pass = after_some_passes();
  for (FilePass::Use& use : pass.uses) use.first_block = use.blocks = ~std::uint32_t{0};
  Program wild(9);
  wild.expect(pass);
  for (int i = 0; i < 3; ++i) wild.pass();
  wild.driver().validate();
}

TEST(EarlierRun, TheMappingThatLaunchesUseIsMeant) {
  const FilePass pass = after_some_passes();
  Program run(9);
  // The same part of the file once more, as a library has it to read the header.
  std::uint64_t second = 0;
  EXPECT_EQ(run.driver().map({9, 8 * kBytes, 0}, std::uint64_t{kLayers} * kLayerBlocks * kBytes, second), Status::kOk);
  run.expect(pass);
  run.pass();
  const PageTable& table = run.driver().core().table();
  const BlockRange unused = run.driver().core().blocks_of(second, std::uint64_t{kLayers} * kLayerBlocks * kBytes);
  for (BlockIndex i = unused.first; i != unused.end(); i = i.next()) EXPECT_EQ(table[i].state, BlockState::kOnFlash);
  EXPECT_GT(run.ahead(), kLayers * kLayerBlocks / 2);
}

}  // namespace
}  // namespace ebb
