// See kernel_stream.h. Products of matrices: kernel_product.cc.
#include "drivers/cuda/kernels/kernel_stream.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/clock.h"
#include "drivers/cuda/kernels/kernel_launch.h"
#include "ebb/units.h"

namespace ebb {
namespace {

constexpr std::size_t kStagingBytesMax = 4 * kMiB;
constexpr std::size_t kKernelsMax = 256;
// A kernel that runs for longer than this is taken to hang.
constexpr std::chrono::minutes kWaitMax{30};

}  // namespace

std::shared_ptr<CudaStream> CudaStream::open(std::shared_ptr<DeviceRuntime> runtime) {
  return std::make_shared<KernelStream>(std::move(runtime));
}

KernelStream::KernelStream(std::shared_ptr<DeviceRuntime> runtime)
    : runtime_(std::move(runtime)), process_(::getpid()) {
  try {
    make();
  } catch (...) {
    release();
    throw;
  }
}

KernelStream::~KernelStream() {
  // A child has none of the driver's threads, and a lost GPU may still use its memory.
  bool is_over = ::getpid() == process_;
  try {
    if (is_over) synchronize();
  } catch (const Error&) {
    is_over = false;  // it hangs, or is lost
  }
  if (is_over) {
    release();
  } else {
    for (auto& [source, kernel] : kernels_) kernel->leave();
  }
}

void KernelStream::make() {
  const Options& options = runtime_->options();
  std::string reason;
  Status status = cuda::Api::load(options.cuda_library, api_, reason);
  if (status != Status::kOk) throw Error(status, reason);
  int major = 0;
  int minor = 0;
  check(api_.device_get(&device_, options.device), "cuDeviceGet");
  check(api_.device_attribute(&major, cuda::kAttributeMajor, device_), "cuDeviceGetAttribute");
  check(api_.device_attribute(&minor, cuda::kAttributeMinor, device_), "cuDeviceGetAttribute");
  status = cuda::Compiler::make(options.nvrtc_library, 10 * major + minor, compiler_, reason);
  if (status != Status::kOk) throw Error(status, reason);
  check(api_.context_retain(&context_, device_), "cuDevicePrimaryCtxRetain");
  const cuda::Current current(api_, context_);
  check(api_.stream_create(&stream_, cuda::kStreamNonBlocking), "cuStreamCreate");
  budget_bytes_ = runtime_->stats().budget_bytes;
  // A copy, and the one being read or written here, are a small part of device memory.
  const std::size_t blocks = options.device_memory / options.block_bytes;
  staging_bytes_ = std::min(kStagingBytesMax, std::max<std::size_t>(blocks / 4, 1) * options.block_bytes);
  void* pinned = nullptr;
  check(api_.host_allocate(&pinned, staging_.size() * staging_bytes_, cuda::kHostPortable), "cuMemHostAlloc");
  pinned_ = static_cast<std::byte*>(pinned);
  for (std::size_t i = 0; i < staging_.size(); ++i) {
    staging_[i].data = pinned_ + i * staging_bytes_;
    check(api_.event_create(&staging_[i].done, cuda::kEventWithoutTiming), "cuEventCreate");
  }
  check(api_.event_create(&end_, cuda::kEventWithoutTiming), "cuEventCreate");
}

void KernelStream::release() {
  if (context_ == nullptr) return;
  {
    const cuda::Current current(api_, context_);
    kernels_.clear();
    if (cublas_handle_ != nullptr) static_cast<void>(cublas_.destroy(cublas_handle_));
    for (const Staging& staging : staging_) {
      if (staging.done != nullptr) static_cast<void>(api_.event_destroy(staging.done));
    }
    if (end_ != nullptr) static_cast<void>(api_.event_destroy(end_));
    if (pinned_ != nullptr) static_cast<void>(api_.host_free(pinned_));
    if (stream_ != nullptr) static_cast<void>(api_.stream_destroy(stream_));
  }
  static_cast<void>(api_.context_release(device_));
}

void KernelStream::check(cuda::Result result, const char* what) const {
  if (result == cuda::kSuccess) return;
  const std::string failure = cuda::is_fatal(result) ? runtime_->failure() : "";
  if (!failure.empty()) throw Error(Status::kIoError, failure);
  const Status status = result == cuda::kOutOfMemory ? Status::kNoMemory : Status::kIoError;
  throw Error(status, std::string("the GPU refuses ") + what + ": " + api_.text(result));
}

// Without the lock if the event is the caller's alone; the work before it needs nothing from us.
void KernelStream::wait(cuda::Event event) const {
  cuda::Result result = cuda::kNotReady;
  if (!look_until_over(kWaitMax, [&] { return (result = api_.event_query(event)) != cuda::kNotReady; })) {
    throw Error(Status::kIoError, "the GPU has not finished what it was given in half an hour: a kernel hangs");
  }
  check(result, "to finish its work");
}

std::shared_ptr<CudaKernel> KernelStream::compile(const std::string& source, const std::string& function) {
  const std::string key = function + '\n' + source;
  const Lock lock(mutex_);
  if (const auto found = kernels_.find(key); found != kernels_.end()) return found->second;
  const cuda::Current current(api_, context_);
  if (kernels_.size() >= kKernelsMax) {
    // Unloading must not meet a kernel that runs.
    check(api_.event_record(end_, stream_), "cuEventRecord");
    wait(end_);
    kernels_.clear();
  }
  const auto kernel = std::make_shared<Kernel>(api_, context_);
  const char* call = "";
  const cuda::Result result = kernel->load(compiler_.compile(source), function, call);
  check(result, call);
  kernels_.emplace(key, kernel);
  return kernel;
}

void KernelStream::launch(const CudaKernel& kernel, CudaGrid grid, std::span<const void* const> parameters,
                          std::span<const Access> accesses) {
  const auto& compiled = static_cast<const Kernel&>(kernel);
  const Lock lock(mutex_);
  const cuda::Current current(api_, context_);
  const Launch announced(*runtime_, stream_, compiled.identity(), accesses);
  check(compiled.start(stream_, grid, parameters), "a kernel (cuLaunchKernel)");
}

bool KernelStream::fits(std::span<const Access> accesses, std::size_t launches) const {
  const std::uint64_t block_bytes = runtime_->options().block_bytes;
  std::vector<std::pair<std::uintptr_t, std::uintptr_t>> blocks;  // first and last
  for (const Access& access : accesses) {
    if (access.bytes == 0) continue;
    const auto begin = reinterpret_cast<std::uintptr_t>(access.data);
    blocks.emplace_back(begin / block_bytes, (begin + access.bytes - 1) / block_bytes);
  }
  std::sort(blocks.begin(), blocks.end());
  std::uint64_t count = 0;
  std::uintptr_t from = 0;
  for (const auto& [first, last] : blocks) {
    from = std::max(from, first);
    if (last < from) continue;
    count += last - from + 1;
    from = last + 1;
  }
  return count * launches <= budget_bytes_ / block_bytes;
}

void KernelStream::start_copy(Staging& staging, void* to, const void* from, std::size_t bytes, bool in) {
  const cuda::Current current(api_, context_);
  const Access access{in ? to : from, bytes, nullptr, 0, in, in};
  const Launch announced(*runtime_, stream_, op_of(in ? "copy in" : "copy out"), {&access, 1});
  staging.is_open = true;
  if (in) {
    check(api_.copy_in(reinterpret_cast<cuda::Pointer>(to), staging.data, bytes, stream_), "cuMemcpyHtoDAsync");
  } else {
    check(api_.copy_out(staging.data, reinterpret_cast<cuda::Pointer>(from), bytes, stream_), "cuMemcpyDtoHAsync");
  }
  check(api_.event_record(staging.done, stream_), "cuEventRecord");
  staging.is_open = false;
}

// Until no copy uses the buffer, also none that was started by a call that then failed.
void KernelStream::wait(Staging& staging) {
  if (staging.is_open) check(api_.event_record(staging.done, stream_), "cuEventRecord");
  staging.is_open = false;
  wait(staging.done);
}

void KernelStream::copy_in(void* to, std::span<const std::byte> from) {
  const Lock lock(mutex_);
  const cuda::Current current(api_, context_);
  auto* const target = static_cast<std::byte*>(to);
  for (std::size_t at = 0, i = 0; at < from.size(); at += staging_bytes_, ++i) {
    Staging& staging = staging_[i % staging_.size()];
    const std::size_t bytes = std::min(staging_bytes_, from.size() - at);
    wait(staging);
    std::memcpy(staging.data, from.data() + at, bytes);
    start_copy(staging, target + at, nullptr, bytes, true);
  }
}

void KernelStream::copy_out(std::span<std::byte> to, const void* from) {
  const Lock lock(mutex_);
  const cuda::Current current(api_, context_);
  const auto* const source = static_cast<const std::byte*>(from);
  const std::size_t pieces = (to.size() + staging_bytes_ - 1) / staging_bytes_;
  const auto bytes_of = [&](std::size_t i) { return std::min(staging_bytes_, to.size() - i * staging_bytes_); };
  // One piece is on its way while the one before it is taken out of its buffer.
  for (std::size_t i = 0; i <= pieces; ++i) {
    if (i < pieces) {
      Staging& next = staging_[i % staging_.size()];
      wait(next);
      start_copy(next, nullptr, source + i * staging_bytes_, bytes_of(i), false);
    }
    if (i == 0) continue;
    Staging& last = staging_[(i - 1) % staging_.size()];
    wait(last);
    std::memcpy(to.data() + (i - 1) * staging_bytes_, last.data, bytes_of(i - 1));
  }
}

void KernelStream::synchronize() {
  const Lock lock(mutex_);
  const cuda::Current current(api_, context_);
  check(api_.event_record(end_, stream_), "cuEventRecord");
  wait(end_);
}

}  // namespace ebb
