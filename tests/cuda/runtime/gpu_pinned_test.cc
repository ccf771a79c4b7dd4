// DeviceRuntime on the software driver: memory that is there before anybody announces it, and stays: for what an
// operator makes while it runs, and for what a library keeps.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "gpu_fixture.h"

namespace ebb {
namespace {

class GpuPinnedTest : public GpuFixture, public testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    GpuFixture::SetUp();
    Options options = gpu_options(8, 64);
    options.device_strict = GetParam();
    runtime_ = DeviceRuntime::open(options);
    stream();
    stream();
  }
  void TearDown() override {
    runtime_->synchronize();
    EXPECT_EQ(wrong_, 0u);
    GpuFixture::TearDown();
  }
  // A kernel that nobody announces.
  void write_unannounced(void* on, void* data, std::size_t bytes, std::uint64_t seed) {
    const soft::Touch touch{data, bytes, true};
    EXPECT_EQ(soft::launch(on, {&touch, 1}, [=] { write_words(data, bytes, seed); }), 0);
  }
  void unpin(void* on, const void* data) { runtime_->unpin_on(on, {&data, 1}); }
  // Twice device memory, written and read.
  void press(void* on) {
    for (std::uint64_t i = 0; i < 16; ++i) {
      void* const data = runtime_->allocate(kGpuBlock);
      write(on, data, kGpuBlock, i);
      pressed_.push_back(data);
    }
  }
  void free_all(void* on) {
    for (void* data : pressed_) runtime_->deallocate_on(data, on);
  }

  std::vector<void*> pressed_;
};

TEST_P(GpuPinnedTest, IsThereUnannounced) {
  void* const on = streams_[0];
  press(on);
  void* const data = runtime_->allocate_on(on, 2 * kGpuBlock);
  write_unannounced(on, data, 2 * kGpuBlock, 7);
  press(on);
  write_unannounced(on, data, 2 * kGpuBlock, 8);
  unpin(on, data);
  press(on);
  check(on, data, 2 * kGpuBlock, 8);
  EXPECT_GT(runtime_->stats().evicted_bytes, 0u);
  runtime_->deallocate_on(data, on);
  free_all(on);
}

// What an operator makes while its launch is open, used by its own kernel after the launches of others inside it.
TEST_P(GpuPinnedTest, StaysWithinALaunch) {
  void* const on = streams_[0];
  press(on);
  void* const input = runtime_->allocate(kGpuBlock);
  const Access access{input, kGpuBlock, input};
  const std::uint64_t outer = runtime_->announce_on(on, 9, {&access, 1});
  void* const made = runtime_->allocate_on(on, kGpuBlock);
  press(on);
  write_unannounced(on, made, kGpuBlock, 3);
  write_unannounced(on, input, kGpuBlock, 4);
  runtime_->retire(outer);
  unpin(on, made);
  press(on);
  check(on, made, kGpuBlock, 3);
  check(on, input, kGpuBlock, 4);
  runtime_->deallocate_on(made, on);
  runtime_->deallocate_on(input, on);
  free_all(on);
}

// A long launch holds its own blocks and not all that is used while it is open.
TEST_P(GpuPinnedTest, AnOpenLaunchHoldsItsOwnAlone) {
  void* const on = streams_[0];
  void* const input = runtime_->allocate(4 * kGpuBlock);
  const Access access{input, 4 * kGpuBlock, input};
  const std::uint64_t outer = runtime_->announce_on(on, 9, {&access, 1});
  press(on);  // of which each is as recent as the outer launch's
  runtime_->retire(outer);
  runtime_->deallocate_on(input, on);
  free_all(on);
}

TEST_P(GpuPinnedTest, GoesFromStreamToStream) {
  for (std::uint64_t i = 0; i < 20; ++i) {
    void* const a = runtime_->allocate_on(streams_[0], kGpuBlock);
    write_unannounced(streams_[0], a, kGpuBlock, i);
    if (i % 2 == 0) unpin(streams_[0], a);
    runtime_->deallocate_on(a, streams_[0]);
    // Whoever has it next is in another stream, and nothing but the runtime orders the two.
    void* const b = runtime_->allocate_on(streams_[1], kGpuBlock);
    write_unannounced(streams_[1], b, kGpuBlock, i + 100);
    runtime_->deallocate_on(b, streams_[1]);
  }
}

// Freed by one stream while another, which the program has named, still uses it.
TEST_P(GpuPinnedTest, OtherStreamsUseItUntilItIsFreed) {
  for (std::uint64_t i = 0; i < 10; ++i) {
    void* const a = runtime_->allocate_on(streams_[0], kGpuBlock);
    write_unannounced(streams_[0], a, kGpuBlock, i);
    EXPECT_EQ(soft::order(streams_[0], streams_[1]), 0);
    write_unannounced(streams_[1], a, kGpuBlock, i + 1);
    runtime_->use_on(streams_[1], a);
    runtime_->deallocate_on(a, streams_[0]);
    void* const b = runtime_->allocate_on(streams_[0], kGpuBlock);
    write_unannounced(streams_[0], b, kGpuBlock, i + 100);
    runtime_->deallocate_on(b, streams_[0]);
  }
}

TEST_P(GpuPinnedTest, MoreThanThereIsIsRefused) {
  void* const on = streams_[0];
  void* const most = runtime_->allocate_on(on, 6 * kGpuBlock);
  EXPECT_NE(said(Status::kNoMemory, [&] { runtime_->allocate_on(on, 4 * kGpuBlock); }), "");  // ten blocks in eight
  EXPECT_EQ(runtime_->stats().live_bytes, 6 * kGpuBlock);
  unpin(on, most);
  void* const fits = runtime_->allocate_on(on, 4 * kGpuBlock);
  runtime_->deallocate_on(fits, on);
  runtime_->deallocate_on(most, on);
}

// One thread waits for room that another's open launch has; that one needs something more before it can end.
TEST_P(GpuPinnedTest, WhoHasALaunchOpenNeedNotWaitForWhoWaitsForIt) {
  const std::vector<void*> held{runtime_->allocate(4 * kGpuBlock)};
  void* const wanted = runtime_->allocate(6 * kGpuBlock);
  const Access first{held[0], 4 * kGpuBlock, held[0]};
  const Access second{wanted, 6 * kGpuBlock, wanted};
  const std::uint64_t open = runtime_->announce_on(streams_[0], 1, {&first, 1});
  std::atomic<bool> done{false};
  std::thread other([&] {
    runtime_->retire(runtime_->announce_on(streams_[1], 2, {&second, 1}));
    done = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(done);
  const auto start = std::chrono::steady_clock::now();
  void* const made = runtime_->allocate_on(streams_[0], 2 * kGpuBlock);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  runtime_->retire(open);
  unpin(streams_[0], made);
  other.join();
  EXPECT_TRUE(done);
  for (void* const data : {held[0], wanted, made}) runtime_->deallocate_on(data, streams_[0]);
}

INSTANTIATE_TEST_SUITE_P(Strict, GpuPinnedTest, testing::Bool(),
                         [](const auto& test) { return std::string(test.param ? "Strict" : "AsEver"); });

}  // namespace
}  // namespace ebb
