// ManagedRuntime with all its threads, as it is, over simulated memory and a simulated device: orders of the steps of
// the fault thread, the mover, threads of the program and one that forks, by lot. Each run is right at its end, nothing
// that is written is lost, and nobody waits for a time to pass: where somebody does, who should have woken him has not.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <thread>

#include "drivers/linux/files/opened_files.h"
#include "interleaving/runtime/simulated_space.h"
#include "plan/policy.h"
#include "runtime/managed_runtime.h"

namespace ebb::interleaving {
namespace {

constexpr std::uint64_t kBlock = 4096;
constexpr std::uint32_t kFrames = 10, kBlocks = 256;
constexpr std::uint64_t kTensors = 4, kTensorBlocks = 3;  // of each of two threads: more than there is memory for
constexpr std::uint64_t kNoTimeNs = 150'000'000;          // less than any time that is waited for

enum class Trouble : std::uint8_t { kNone, kFaults, kLostWakes };

struct Machine {
  explicit Machine(Trouble trouble = Trouble::kNone) : world({kBlock, kFrames, kBlocks, 1}, flash_config()) {
    world.keeps_wakes = trouble != Trouble::kLostWakes;
    if (trouble == Trouble::kFaults) {
      for (const Fault fault : {Fault::kBusy, Fault::kReadError, Fault::kWriteError, Fault::kSlow}) {
        world.plan[fault] = {1, 8};
      }
    }
    ebb::Options options;
    options.block_bytes = kBlock;
    options.memory = kFrames * kBlock;
    options.memory_max = options.memory;
    options.managed_bytes_min = kBlock / 4;
    ManagedRuntime::Parts parts;
    parts.config.block_bytes = kBlock;
    parts.config.budget_bytes = options.memory;
    parts.config.tables_in_budget = false;
    parts.config.blocks = kBlocks;
    parts.config.extents = 64;
    parts.config.queue_depth = 4;
    auto simulated = std::make_unique<SimulatedSpace>(world);
    space = simulated.get();
    parts.memory = std::move(simulated);
    parts.flash = std::make_unique<SimulatedFlash>(world);
    parts.files = std::make_unique<OpenedFiles>();
    parts.policy = make_policy("window");
    runtime = std::make_unique<ManagedRuntime>(options, std::move(parts));
  }
  static SimFlash::Config flash_config() {
    SimFlash::Config config;
    config.block_bytes = kBlock;
    config.depth = 4;
    return config;
  }

  SimulatedWorld world;
  SimulatedSpace* space = nullptr;
  std::unique_ptr<ManagedRuntime> runtime;
};

// Tensors that are written, used by launches and by touches that nobody announced, and read.
void compute(Machine& machine, std::uint64_t thread) {
  ManagedRuntime& runtime = *machine.runtime;
  std::array<std::byte*, kTensors> tensors{};
  const auto word = [](std::byte* tensor, std::uint64_t i) { return tensor + i * kBlock; };
  for (std::uint64_t t = 0; t < kTensors; ++t) {
    tensors[t] = static_cast<std::byte*>(runtime.allocate(kTensorBlocks * kBlock));
    for (std::uint64_t i = 0; i < kTensorBlocks; ++i) machine.space->write(word(tensors[t], i), thread + t * 100 + i);
  }
  for (std::uint64_t t = 0; t < kTensors; ++t) {
    const Access access{.data = tensors[t], .bytes = kTensorBlocks * kBlock};
    const std::uint64_t ticket = t % 2 == 0 ? runtime.announce(1, {&access, 1}) : 0;
    for (std::uint64_t i = 0; i < kTensorBlocks; ++i) {
      require(machine.space->read(word(tensors[t], i)) == thread + t * 100 + i, "it is as it was written");
    }
    runtime.retire(ticket);
  }
  for (std::byte* const tensor : tensors) runtime.deallocate(tensor);
}

void run_program(Trouble trouble) {
  Machine machine(trouble);
  std::thread other([&] { compute(machine, 10'000); });
  std::thread forker([&] {
    machine.runtime->before_fork();
    machine.runtime->after_fork_parent();
    machine.runtime->step();
  });
  compute(machine, 20'000);
  other.join();
  forker.join();
  machine.runtime.reset();
}

// One thread allocates, for which others' blocks have to leave; another one frees those before they have gone anywhere.
void free_what_leaves() {
  Machine machine;
  ManagedRuntime& runtime = *machine.runtime;
  std::array<std::byte*, 3> tensors{};
  for (std::byte*& tensor : tensors) {
    tensor = static_cast<std::byte*>(runtime.allocate(kTensorBlocks * kBlock));
    for (std::uint64_t i = 0; i < kTensorBlocks; ++i) machine.space->write(tensor + i * kBlock, 1);
  }
  std::thread other([&] { runtime.deallocate(runtime.allocate(kTensorBlocks * kBlock)); });
  for (std::byte* const tensor : tensors) runtime.deallocate(tensor);
  other.join();
  machine.runtime.reset();
}

std::uint64_t number(const char* variable, std::uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

Findings explore_runtime(const std::function<void()>& program) {
  Options options;
  options.random = number("EBB_ORDERS", 200);
  options.seed = number("EBB_SEED", 1);
  options.newest_only = true;
  options.races = false;
  options.steps_max = 200'000;
  options.patience_ns = kNoTimeNs;
  return explore([&] { return Scenario{{program}, {}}; }, options);
}

TEST(RuntimeOrders, AreAllRight) {
  const auto begun = std::chrono::steady_clock::now();
  const Findings findings = explore_runtime([] { run_program(Trouble::kNone); });
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  EXPECT_EQ(findings.failure, "");
  std::printf("%.0f orders a second, of %.0f steps each\n", static_cast<double>(findings.executions) / seconds,
              static_cast<double>(findings.steps) / static_cast<double>(findings.executions));
}

TEST(RuntimeOrders, AreAllRightWithFaults) {
  EXPECT_EQ(explore_runtime([] { run_program(Trouble::kFaults); }).failure, "");
}

TEST(RuntimeOrders, WhoWaitsForFramesIsToldOfThoseThatOthersFree) {
  EXPECT_EQ(explore_runtime(free_what_leaves).failure, "");
}

TEST(RuntimeOrders, ALostWakeIsFound) {
  EXPECT_NE(explore_runtime([] { run_program(Trouble::kLostWakes); }).failure.find("all wait for a time to pass"),
            std::string::npos);
}

}  // namespace
}  // namespace ebb::interleaving
