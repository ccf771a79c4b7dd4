// What Ebbtide costs on a GPU, beside what plain CUDA takes in the same run: copies, mapping, and a pass over more
// tensors than GPU memory holds. Writes one JSON object to stdout. tools/gpu_check runs it.
//
//   gpu_bench [LIBRARY [BLOCK_BYTES]]      LIBRARY: of the CUDA driver, libcuda.so.1 unless given
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "drivers/cuda/cuda_device.h"
#include "ebb/device.h"
#include "gpu_costs.h"

namespace ebb {
namespace {

constexpr std::uint32_t kFrames = 64;
constexpr int kRounds = 8;

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

[[noreturn]] void give_up(const std::string& why) {
  std::fprintf(stderr, "gpu_bench: %s\n", why.c_str());
  std::exit(1);
}

void must(Status status, const char* what) {
  if (status != Status::kOk) give_up(std::string(what) + ": " + name(status));
}

void must(cuda::Result result, const char* what) {
  if (result != cuda::kSuccess) give_up(std::string(what) + " failed with " + std::to_string(result));
}

// Until all that a stream was given is over.
void finish(const cuda::Api& api, cuda::Stream stream) {
  cuda::Event event = nullptr;
  must(api.event_create(&event, cuda::kEventWithoutTiming), "cuEventCreate");
  must(api.event_record(event, stream), "cuEventRecord");
  while (api.event_query(event) == cuda::kNotReady) std::this_thread::yield();
  must(api.event_destroy(event), "cuEventDestroy");
}

// GB/s of plain copies of one large piece of pinned memory.
double plain_copies(const cuda::Api& api, GpuDevice& device, bool in, std::size_t bytes) {
  cuda::Pointer plain = 0;
  must(api.allocate(&plain, bytes), "cuMemAlloc");
  auto* const stream = static_cast<cuda::Stream>(device.copy_stream(in ? GpuDevice::Copy::kIn : GpuDevice::Copy::kOut));
  double start = 0;
  for (int round = 0; round <= kRounds; ++round) {
    if (round == 1) start = seconds();  // the first one warms up
    must(in ? api.copy_in(plain, device.host().data(), bytes, stream)
            : api.copy_out(device.host().data(), plain, bytes, stream),
         "copy");
    finish(api, stream);
  }
  const double rate = static_cast<double>(bytes) * kRounds / (seconds() - start) * 1e-9;
  must(api.free(plain), "cuMemFree");
  return rate;
}

// Passes over tensors of twice GPU memory, with a fill of each; GB/s of what comes and goes.
double passes(const cuda::Api& api, const std::string& library, std::size_t block, std::string& description) {
  Options options;
  options.block_bytes = block;
  options.device_memory = kFrames * block;
  options.memory = 4 * kFrames * block;
  parse_flash("/tmp:1GiB", options);
  options.policy = "window";
  options.cuda_library = library;
  const auto runtime = DeviceRuntime::open(options);
  description = runtime->description();
  cuda::Stream stream = nullptr;
  must(api.stream_create(&stream, cuda::kStreamNonBlocking), "cuStreamCreate");
  std::vector<void*> tensors(2 * kFrames);
  for (void*& tensor : tensors) tensor = runtime->allocate(block);
  double start = 0;
  std::uint64_t moved = 0;
  for (int round = 0; round <= kRounds; ++round) {
    if (round == 1) {
      runtime->synchronize();
      start = seconds();
      moved = runtime->stats().fetched_bytes + runtime->stats().evicted_bytes;
    }
    for (void* tensor : tensors) {
      const Access access{tensor, block, tensor};
      const std::uint64_t ticket = runtime->announce_on(stream, 1, {&access, 1});
      must(api.fill(reinterpret_cast<cuda::Pointer>(tensor), 1, block, stream), "cuMemsetD8Async");
      runtime->retire(ticket);
    }
  }
  runtime->synchronize();
  const double took = seconds() - start;
  moved = runtime->stats().fetched_bytes + runtime->stats().evicted_bytes - moved;
  for (void* tensor : tensors) runtime->deallocate_on(tensor, stream);
  must(api.stream_destroy(stream), "cuStreamDestroy");
  return static_cast<double>(moved) / took * 1e-9;
}

// What mapping costs where a thousand other blocks are mapped, in an address space of many more, as under a program;
// null where the GPU has no room for that.
std::string mapping_among_many(const cuda::Api& api, const std::string& library, std::size_t block) {
  constexpr std::uint32_t kOthers = 1024;
  CudaDevice::Config config;
  config.library = library;
  config.block_bytes = block;
  config.frames = kFrames + kOthers;
  config.blocks = 16 * config.frames;
  config.host_bytes = block;
  std::unique_ptr<CudaDevice> device;
  std::string reason;
  if (CudaDevice::make(config, device, reason) != Status::kOk) return "null";
  for (std::uint32_t i = 0; i < config.frames; ++i) must(device->create(FrameIndex(i)), "create");
  for (std::uint32_t i = kFrames; i < config.frames; ++i) must(device->map(FrameIndex(i), BlockIndex(i)), "map");
  must(device->permit({BlockIndex(kFrames), kOthers}), "permit");
  return measure_mapping(api, *device, block);
}

int bench(const std::string& library, std::size_t block) {
  cuda::Api api;
  std::string reason;
  if (cuda::Api::load(library, api, reason) != Status::kOk) give_up(reason);
  CudaDevice::Config config;
  config.library = library;
  config.block_bytes = block;
  config.blocks = kFrames;
  config.frames = kFrames;
  config.host_bytes = kFrames * block;
  std::unique_ptr<CudaDevice> device;
  if (CudaDevice::make(config, device, reason) != Status::kOk) give_up(reason);
  cuda::Context context = nullptr;
  must(api.context_retain(&context, 0), "cuDevicePrimaryCtxRetain");
  must(api.context_push(context), "cuCtxPushCurrent");
  for (std::uint32_t i = 0; i < kFrames; ++i) must(device->create(FrameIndex(i)), "create");
  const double plain_in = plain_copies(api, *device, true, kFrames * block);
  const double plain_out = plain_copies(api, *device, false, kFrames * block);
  const std::string costs = measure_costs(api, *device, block);
  device.reset();
  const std::string among_many = mapping_among_many(api, library, block);
  std::string description;
  const double pass = passes(api, library, block, description);
  std::printf("{\"device\": \"%s\", \"block_bytes\": %zu, \"plain_in_gb_s\": %.2f, \"plain_out_gb_s\": %.2f, ",
              description.c_str(), block, plain_in, plain_out);
  std::printf("\"pass_gb_s\": %.2f, \"costs\": %s, \"mapping_among_many\": %s}\n", pass, costs.c_str(),
              among_many.c_str());
  must(api.context_pop(&context), "cuCtxPopCurrent");
  must(api.context_release(0), "cuDevicePrimaryCtxRelease");
  return 0;
}

}  // namespace
}  // namespace ebb

int main(int argc, char** argv) {
  const std::string library = argc > 1 ? argv[1] : "libcuda.so.1";
  const std::size_t block = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 2 * ebb::kMiB;
  try {
    return ebb::bench(library, block);
  } catch (const ebb::Error& error) {
    ebb::give_up(error.what());
  }
}
