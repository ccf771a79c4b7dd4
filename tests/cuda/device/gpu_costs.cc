// See gpu_costs.h.
#include "gpu_costs.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

namespace ebb {
namespace {

constexpr std::uint32_t kMany = 64;
constexpr int kRounds = 9;
constexpr std::size_t kLoadBytes = std::size_t{256} << 20;  // what one fill of the load writes
constexpr double kLoadUs = 40'000;                          // longer than any call that is measured

double now_us() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void must(cuda::Result result, const char* what) {
  if (result == cuda::kSuccess) return;
  std::fprintf(stderr, "gpu_bench: %s failed with %d\n", what, result);
  std::exit(1);
}

void must(Status status, const char* what) {
  if (status == Status::kOk) return;
  std::fprintf(stderr, "gpu_bench: %s: %s\n", what, name(status));
  std::exit(1);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

class Costs {
 public:
  Costs(const cuda::Api& api, CudaDevice& device, std::size_t block) : api_(api), device_(device), block_(block) {
    must(api_.stream_create(&stream_, cuda::kStreamNonBlocking), "cuStreamCreate");
    must(api_.event_create(&event_, cuda::kEventWithoutTiming), "cuEventCreate");
    must(api_.allocate(&memory_, kLoadBytes), "cuMemAlloc");
    fill();
    finish(stream_);
    const double start = now_us();
    fill();
    finish(stream_);
    fills_ = std::clamp(static_cast<int>(kLoadUs / (now_us() - start)), 1, 500);
  }
  ~Costs() {
    must(api_.free(memory_), "cuMemFree");
    must(api_.event_destroy(event_), "cuEventDestroy");
    must(api_.stream_destroy(stream_), "cuStreamDestroy");
  }
  Costs(const Costs&) = delete;
  Costs& operator=(const Costs&) = delete;

  std::string measure_mapping() {
    mapping(1);
    mapping(kMany);
    return "{" + text_ + "}";
  }
  std::string measure() {
    mapping(1);
    mapping(kMany);
    events();
    copies();
    pinning();
    return "{" + text_ + "}";
  }

 private:
  void tell(const std::string& what, double value) {
    char number[32];
    std::snprintf(number, sizeof number, "%.2f", value);
    text_ += (text_.empty() ? "\"" : ", \"") + what + "\": " + number;
  }

  void finish(cuda::Stream stream) {
    must(api_.event_record(event_, stream), "cuEventRecord");
    while (api_.event_query(event_) == cuda::kNotReady) std::this_thread::yield();
  }

  void fill() { must(api_.fill(memory_, 1, kLoadBytes, stream_), "cuMemsetD8Async"); }

  void load() {
    for (int i = 0; i < fills_; ++i) fill();
    must(api_.event_record(event_, stream_), "cuEventRecord");
  }

  // Microseconds of one call after the other, each told under its name; under load only what took place under it.
  using Calls = std::vector<std::pair<std::string, std::function<void()>>>;
  void time(const std::string& suffix, bool loaded, const Calls& calls) {
    std::vector<std::vector<double>> took(calls.size());
    bool outlasted = true;
    for (int round = 0; round < kRounds; ++round) {
      if (loaded) load();
      for (std::size_t i = 0; i < calls.size(); ++i) {
        const double start = now_us();
        calls[i].second();
        took[i].push_back(now_us() - start);
      }
      if (loaded) outlasted &= api_.event_query(event_) == cuda::kNotReady;
      finish(stream_);
    }
    for (std::size_t i = 0; i < calls.size(); ++i) tell(calls[i].first + suffix, median(took[i]));
    if (loaded) tell("under_load_throughout" + suffix, outlasted ? 1 : 0);
  }

  void mapping(std::uint32_t count) {
    const Calls calls = {
        {"map",
         [&] {
           for (std::uint32_t i = 0; i < count; ++i) must(device_.map(FrameIndex(i), BlockIndex(i)), "map");
         }},
        {"set_access",
         [&] {
           must(device_.permit({BlockIndex(0), count}), "permit");
         }},
        {"unmap",
         [&] {
           must(device_.unmap({BlockIndex(0), count}), "unmap");
         }},
    };
    const std::string blocks = "_" + std::to_string(count);
    time(blocks + "_us", false, calls);
    time(blocks + "_busy_us", true, calls);
  }

  void events() {
    cuda::Event other = nullptr;
    must(api_.event_create(&other, cuda::kEventWithoutTiming), "cuEventCreate");
    cuda::Stream waiting = nullptr;
    must(api_.stream_create(&waiting, cuda::kStreamNonBlocking), "cuStreamCreate");
    constexpr int kTimes = 100;
    const auto often = [](auto call) {
      return [call] {
        for (int i = 0; i < kTimes; ++i) call();
      };
    };
    const Calls calls = {
        {"record_x100", often([&] { must(api_.event_record(other, stream_), "cuEventRecord"); })},
        {"query_x100", often([&] { static_cast<void>(api_.event_query(other)); })},
        {"stream_wait_x100", often([&] { must(api_.stream_wait(waiting, other, 0), "cuStreamWaitEvent"); })},
        {"launch_x100", often([&] { must(api_.fill(memory_, 1, 512, waiting), "cuMemsetD8Async"); })},
    };
    time("_us", false, calls);
    time("_busy_us", true, calls);
    finish(waiting);
    must(api_.stream_destroy(waiting), "cuStreamDestroy");
    must(api_.event_destroy(other), "cuEventDestroy");
  }

  // GB/s of blocks between pinned memory and frames, each way alone and both at once.
  void copies() {
    constexpr int kPasses = 16;
    const auto pass = [&](bool in, bool out) {
      const double start = now_us();
      for (int turn = 0; turn < kPasses; ++turn) {
        for (std::uint32_t i = 0; i < kMany / 2; ++i) {
          if (in) must(device_.copy_in(FrameIndex(i), device_.host().subspan(i * block_, block_)), "copy in");
          const std::uint32_t other = kMany / 2 + i;
          if (out)
            must(device_.copy_out(device_.host().subspan(other * block_, block_), FrameIndex(other)), "copy out");
        }
      }
      if (in) finish(static_cast<cuda::Stream>(device_.copy_stream(GpuDevice::Copy::kIn)));
      if (out) finish(static_cast<cuda::Stream>(device_.copy_stream(GpuDevice::Copy::kOut)));
      const double bytes = static_cast<double>(block_) * kPasses * kMany / 2;
      return bytes / (now_us() - start) * 1e-3;
    };
    pass(true, true);
    tell("copy_in_gb_s", pass(true, false));
    tell("copy_out_gb_s", pass(false, true));
    tell("copy_each_of_both_gb_s", pass(true, true));
  }

  void pinning() {
    for (const std::size_t gib : {1, 4}) {
      void* data = nullptr;
      const double start = now_us();
      must(api_.host_allocate(&data, gib << 30, cuda::kHostPortable), "cuMemHostAlloc");
      const double pinned = now_us();
      must(api_.host_free(data), "cuMemFreeHost");
      tell("pin_" + std::to_string(gib) + "_s_gib", (pinned - start) * 1e-6 / static_cast<double>(gib));
      tell("unpin_" + std::to_string(gib) + "_s_gib", (now_us() - pinned) * 1e-6 / static_cast<double>(gib));
    }
  }

  const cuda::Api& api_;
  CudaDevice& device_;
  std::size_t block_;
  cuda::Stream stream_ = nullptr;
  cuda::Event event_ = nullptr;
  cuda::Pointer memory_ = 0;
  int fills_ = 1;
  std::string text_;
};

}  // namespace

std::string measure_mapping(const cuda::Api& api, CudaDevice& device, std::size_t block_bytes) {
  return Costs(api, device, block_bytes).measure_mapping();
}

std::string measure_costs(const cuda::Api& api, CudaDevice& device, std::size_t block_bytes) {
  return Costs(api, device, block_bytes).measure();
}

}  // namespace ebb
