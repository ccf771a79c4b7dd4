// A training loop, end to end: a multilayer perceptron whose weights, activations and gradients are several times GPU
// memory, with kernels in a stream, is bit for bit what it is in ordinary memory.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "base/rng.h"
#include "gpu_program.h"
#include "trace/reader.h"

namespace ebb {
namespace {

constexpr std::size_t kBatch = 16;
constexpr std::size_t kWidth = 96;
constexpr std::size_t kLayers = 10;
constexpr int kIterations = 5;
constexpr std::size_t kWeights = kWidth * kWidth * sizeof(float);  // 36 KiB: two share most blocks
constexpr std::size_t kValues = kBatch * kWidth * sizeof(float);

// Kernels, over plain pointers; the same for both worlds.
void forward(const float* input, const float* weight, float* output) {
  for (std::size_t b = 0; b < kBatch; ++b) {
    for (std::size_t o = 0; o < kWidth; ++o) {
      float sum = 0;
      for (std::size_t i = 0; i < kWidth; ++i) sum += input[b * kWidth + i] * weight[o * kWidth + i];
      output[b * kWidth + o] = sum > 0 ? sum : 0.01f * sum;
    }
  }
}

// Gradient of the input, and of the weight; `output` says on which side of the kink it was.
void backward(const float* input, const float* weight, const float* output, const float* gradient, float* to_input,
              float* to_weight) {
  std::memset(to_input, 0, kValues);
  std::memset(to_weight, 0, kWeights);
  for (std::size_t b = 0; b < kBatch; ++b) {
    for (std::size_t o = 0; o < kWidth; ++o) {
      const float slope = gradient[b * kWidth + o] * (output[b * kWidth + o] > 0 ? 1.0f : 0.01f);
      for (std::size_t i = 0; i < kWidth; ++i) {
        to_input[b * kWidth + i] += slope * weight[o * kWidth + i];
        to_weight[o * kWidth + i] += slope * input[b * kWidth + i];
      }
    }
  }
}

void update(float* weight, float* momentum, const float* gradient) {
  for (std::size_t i = 0; i < kWidth * kWidth; ++i) {
    momentum[i] = 0.9f * momentum[i] + gradient[i];
    weight[i] -= 0.001f * momentum[i];
  }
}

void fill(float* data, std::size_t count, std::uint64_t seed, float scale) {
  Rng rng(seed);
  for (std::size_t i = 0; i < count; ++i) data[i] = scale * (static_cast<float>(rng.below(2001)) / 1000.0f - 1.0f);
}

void loss_gradient(const float* output, float* gradient) {
  for (std::size_t i = 0; i < kBatch * kWidth; ++i) gradient[i] = output[i] - (i % 3 == 0 ? 0.5f : -0.25f);
}

// Where the tensors live and kernels run.
class Place {
 public:
  virtual ~Place() = default;
  virtual float* make(std::size_t bytes) = 0;
  virtual void drop(float* data) = 0;
  virtual void run(std::uint64_t op, const std::vector<KernelUse>& uses, std::function<void()> body) = 0;
  virtual void step() {}
  virtual void finish() {}
};

class Plain final : public Place {
 public:
  float* make(std::size_t bytes) override { return static_cast<float*>(std::malloc(bytes)); }
  void drop(float* data) override { std::free(data); }
  void run(std::uint64_t, const std::vector<KernelUse>&, std::function<void()> body) override { body(); }
};

class OnDevice final : public Place {
 public:
  OnDevice(DeviceRuntime& runtime, void* stream) : runtime_(runtime), stream_(stream) {}
  float* make(std::size_t bytes) override { return static_cast<float*>(runtime_.allocate(bytes)); }
  void drop(float* data) override { runtime_.deallocate_on(data, stream_); }
  void run(std::uint64_t op, const std::vector<KernelUse>& uses, std::function<void()> body) override {
    ASSERT_EQ(run_kernel(runtime_, stream_, op, uses, std::move(body)), 0);
  }
  void step() override { runtime_.step(); }
  void finish() override { runtime_.synchronize(); }

 private:
  DeviceRuntime& runtime_;
  void* stream_;
};

class Training {
 public:
  explicit Training(Place& place) : place_(place) {
    for (std::size_t layer = 0; layer < kLayers; ++layer) {
      weights_.push_back(place.make(kWeights));
      momenta_.push_back(place.make(kWeights));
      float* const weight = weights_.back();
      float* const momentum = momenta_.back();
      place.run(1, {{weight, kWeights, true}}, [=] { fill(weight, kWidth * kWidth, layer + 1, 0.1f); });
      place.run(2, {{momentum, kWeights, true}}, [=] { std::memset(momentum, 0, kWeights); });
    }
  }

  void iterate(std::uint64_t iteration) {
    std::vector<float*> values{place_.make(kValues)};
    float* const input = values[0];
    place_.run(3, {{input, kValues, true}}, [=] { fill(input, kBatch * kWidth, 77 + iteration, 1.0f); });
    for (std::size_t layer = 0; layer < kLayers; ++layer) {
      values.push_back(place_.make(kValues));
      const float* const from = values[layer];
      const float* const weight = weights_[layer];
      float* const to = values[layer + 1];
      place_.run(10 + layer, {{values[layer], kValues, false}, {weights_[layer], kWeights, false}, {to, kValues, true}},
                 [=] { forward(from, weight, to); });
    }
    back(values);
    place_.step();
  }

  // All weights, as they are in the end.
  std::vector<float> weights() {
    std::vector<float> all(kLayers * kWidth * kWidth);
    for (std::size_t layer = 0; layer < kLayers; ++layer) {
      float* const to = all.data() + layer * kWidth * kWidth;
      const float* const weight = weights_[layer];
      place_.run(5, {{weights_[layer], kWeights, false}}, [=] { std::memcpy(to, weight, kWeights); });
    }
    place_.finish();
    for (std::size_t layer = 0; layer < kLayers; ++layer) {
      place_.drop(weights_[layer]);
      place_.drop(momenta_[layer]);
    }
    return all;
  }

 private:
  void back(std::vector<float*>& values) {
    float* gradient = place_.make(kValues);
    float* const last = values.back();
    float* const first_gradient = gradient;
    place_.run(4, {{last, kValues, false}, {gradient, kValues, true}}, [=] { loss_gradient(last, first_gradient); });
    for (std::size_t layer = kLayers; layer-- > 0;) {
      float* const to_input = place_.make(kValues);
      float* const to_weight = place_.make(kWeights);
      float* const from = values[layer];
      float* const output = values[layer + 1];
      float* const weight = weights_[layer];
      float* const momentum = momenta_[layer];
      float* const above = gradient;
      place_.run(30 + layer,
                 {{from, kValues, false},
                  {weight, kWeights, false},
                  {output, kValues, false},
                  {above, kValues, false},
                  {to_input, kValues, true},
                  {to_weight, kWeights, true}},
                 [=] { backward(from, weight, output, above, to_input, to_weight); });
      place_.run(60, {{weight, kWeights, true}, {momentum, kWeights, true}, {to_weight, kWeights, false}},
                 [=] { update(weight, momentum, to_weight); });
      place_.drop(to_weight);
      place_.drop(output);
      place_.drop(above);
      gradient = to_input;
    }
    place_.drop(gradient);
    place_.drop(values[0]);
  }

  Place& place_;
  std::vector<float*> weights_;
  std::vector<float*> momenta_;
};

std::vector<float> train(Place& place) {
  Training training(place);
  for (int i = 0; i < kIterations; ++i) training.iterate(static_cast<std::uint64_t>(i));
  return training.weights();
}

class TrainTest : public testing::TestWithParam<const char*> {};

TEST_P(TrainTest, IsBitEqualToPlainMemory) {
  Plain plain;
  const std::vector<float> expected = train(plain);
  ASSERT_TRUE(std::isfinite(expected[0]));
  soft::reset();
  void* stream = nullptr;
  ASSERT_EQ(soft::new_stream(&stream), 0);
  {
    // Some 16 blocks of weights and momenta alone, in 8; of host memory as much again.
    Options options = gpu_options(8, 6);
    options.device_notes = true;
    options.policy = GetParam();
    const std::shared_ptr<DeviceRuntime> runtime = DeviceRuntime::open(options);
    OnDevice device(*runtime, stream);
    const std::vector<float> trained = train(device);
    EXPECT_EQ(std::memcmp(trained.data(), expected.data(), expected.size() * sizeof(float)), 0);
    EXPECT_GT(runtime->stats().evicted_bytes, 0u);
    EXPECT_EQ(runtime->stats().live_bytes, 0u);
  }
  EXPECT_EQ(soft::delete_stream(stream), 0);
  expect_clean();
  soft::reset();
}

// With the times of its kernels: of those that take long, long ones.
TEST(TrainRecordTest, WritesATrace) {
  constexpr std::chrono::milliseconds kLong{40};
  soft::reset();
  void* stream = nullptr;
  ASSERT_EQ(soft::new_stream(&stream), 0);
  Options options = gpu_options(8, 6);
  options.record = testing::TempDir() + "gpu_trace.json";
  {
    const std::shared_ptr<DeviceRuntime> runtime = DeviceRuntime::open(options);
    ASSERT_TRUE(runtime->recording());
    void* const data = runtime->allocate(kGpuBlock);
    for (int step = 0; step < 6; ++step) {
      for (const std::uint64_t op : {1, 2, 3}) {
        runtime->name_op(op, op == 2 ? "long" : "short");
        ASSERT_EQ(run_kernel(*runtime, stream, op, {{data, kGpuBlock, true}},
                             [=] { std::this_thread::sleep_for(op == 2 ? kLong : kLong * 0); }),
                  0);
      }
      runtime->step();
    }
    runtime->deallocate_on(data, stream);
  }
  const Trace trace = read_trace(options.record);
  ASSERT_EQ(trace.launches.size(), 3u);
  for (const Trace::Launch& launch : trace.launches) {
    EXPECT_EQ(trace.ops[launch.op] == "long", launch.ns >= 40'000'000) << launch.ns;
  }
  EXPECT_EQ(soft::delete_stream(stream), 0);
  soft::reset();
}

INSTANTIATE_TEST_SUITE_P(Policies, TrainTest, testing::Values("window", "foresight"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace ebb
