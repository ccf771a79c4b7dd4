// GpuFixture: a DeviceRuntime on the software driver, streams, and kernels that write and check words; at the end of a
// test nothing may be left or have been done wrong.
//
// Owned by GoogleTest; one thread.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "gpu_program.h"

namespace ebb {

class GpuFixture : public testing::Test {
 protected:
  void SetUp() override { soft::reset(); }
  void TearDown() override {
    runtime_.reset();
    for (void* stream : streams_) EXPECT_EQ(soft::delete_stream(stream), 0);
    expect_clean();
    soft::reset();
  }
  void* stream() {
    void* made = nullptr;
    EXPECT_EQ(soft::new_stream(&made), 0);
    streams_.push_back(made);
    return made;
  }
  void write(void* on, void* data, std::size_t bytes, std::uint64_t seed) {
    EXPECT_EQ(run_kernel(*runtime_, on, 1, {{data, bytes, true}}, [=] { write_words(data, bytes, seed); }), 0);
  }
  void check(void* on, void* data, std::size_t bytes, std::uint64_t seed) {
    auto* const wrong = &wrong_;
    EXPECT_EQ(run_kernel(*runtime_, on, 2, {{data, bytes, false}}, [=] { check_words(data, bytes, seed, 0, wrong); }),
              0);
  }

  std::shared_ptr<DeviceRuntime> runtime_;
  std::vector<void*> streams_;
  std::atomic<std::uint64_t> wrong_{0};
};

}  // namespace ebb
