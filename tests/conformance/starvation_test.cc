// A touch that no block can make room for: it waits as long as something is under way that could help, however slow,
// and fails loudly when nothing is. On a device of threads whose growth and writes can be made to stall, or fail.
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "base/test/in_a_child.h"
#include "drivers/linux/files/opened_files.h"
#include "drivers/linux/flash/flash_file.h"
#include "drivers/linux/flash/thread_flash.h"
#include "plan/policy.h"
#include "runtime/managed_runtime.h"
#include "space_drivers.h"

namespace ebb::conformance {
namespace {

using namespace std::chrono_literals;

constexpr unsigned kSecondsMax = 60;
constexpr auto kLimit = 200ms;  // instead of seconds
constexpr auto kStall = 1500ms;
constexpr std::uint64_t kBlock = 64 * kKiB;
constexpr std::uint64_t kBlocks = 512;
constexpr std::uint64_t kThreads = 8;

struct Trouble {
  bool reserve_stalls = false;
  bool writes_stall = false;
  bool writes_fail = false;
};

class TroubledFlash final : public RawFlash {
 public:
  TroubledFlash(std::unique_ptr<RawFlash> flash, Trouble trouble) : flash_(std::move(flash)), trouble_(trouble) {}

  std::uint32_t depth() const override { return flash_->depth(); }
  void submit(const RawRequest& request) override {
    if (!request.write || !trouble_.writes_fail) return flash_->submit(request);
    flash_->submit({true, request.token, std::uint64_t{1} << 62, request.bytes});
  }
  // As long as it stalls, all that has been submitted is under way.
  std::size_t poll(std::span<RawCompletion> completions) override {
    if (trouble_.writes_stall && stalls()) return 0;
    return flash_->poll(completions);
  }
  void wait(std::chrono::nanoseconds timeout) override {
    flash_->wait(std::min<std::chrono::nanoseconds>(timeout, 10ms));
  }
  void wake() override { flash_->wake(); }
  Status reserve(std::uint64_t bytes) override {
    while (trouble_.reserve_stalls && stalls()) std::this_thread::sleep_for(10ms);
    return flash_->reserve(bytes);
  }
  Status read_now(const RawRequest& request) override { return flash_->read_now(request); }

 private:
  static bool stalls() {
    static const auto begin = std::chrono::steady_clock::now();
    return std::chrono::steady_clock::now() - begin < kStall;
  }

  std::unique_ptr<RawFlash> flash_;
  Trouble trouble_;
};

// Some threads write an array four times the budget, and one reads it back.
int run(SpaceDriver driver, Trouble trouble) {
  Options options;
  options.memory = 8 * kMiB;
  options.block_bytes = kBlock;
  ManagedRuntime::Parts parts;
  parts.files = std::make_unique<OpenedFiles>();
  parts.policy = make_policy("window");
  parts.config.block_bytes = kBlock;
  parts.config.budget_bytes = options.memory;
  parts.config.extents = 4 * kBlocks;
  parts.config.blocks = 4096;
  parts.starved_max = kLimit;
  FlashFile file = FlashFile::open(default_flash_directory());
  std::unique_ptr<ThreadFlash> flash;
  std::string reason;
  parts.memory = make_space(driver, kBlock, parts.config.blocks, parts.config.frames(), reason);
  if (parts.memory == nullptr || ThreadFlash::make(file, parts.config.queue_depth, flash) != Status::kOk) return kSkip;
  parts.flash = std::make_unique<TroubledFlash>(std::move(flash), trouble);
  const auto runtime = std::make_shared<ManagedRuntime>(options, std::move(parts));
  auto* const data = static_cast<std::byte*>(runtime->allocate(kBlocks * kBlock));
  const auto word = [data](std::uint64_t i) { return reinterpret_cast<volatile std::uint64_t*>(data + i * kBlock); };
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::this_thread::sleep_for(t * kLimit / 2);  // so that there is always another fault to look at the time
      for (std::uint64_t i = t; i < kBlocks; i += kThreads) *word(i) = i + 1;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::uint64_t i = 0; i < kBlocks; ++i) {
    if (*word(i) != i + 1) return 1;
  }
  return 0;
}

class Starvation : public testing::TestWithParam<SpaceDriver> {
 protected:
  static void ends(Trouble trouble, int how) {
    expect_end(in_a_child(kSecondsMax, [trouble] { return run(GetParam(), trouble); }), how);
  }
};

TEST_P(Starvation, IsNotDeclaredWhileFlashIsBeingGrown) { ends({.reserve_stalls = true}, 0); }

TEST_P(Starvation, IsDeclaredWhenNothingIsUnderWay) { ends({.writes_fail = true}, kSignalled + SIGBUS); }

TEST_P(Starvation, IsNotDeclaredWhileTransfersAreUnderWay) { ends({.writes_stall = true}, 0); }

INSTANTIATE_TEST_SUITE_P(Drivers, Starvation, testing::Values(SpaceDriver::kMove, SpaceDriver::kRemap),
                         [](const auto& test) { return name(test.param); });

}  // namespace
}  // namespace ebb::conformance
