// DeviceRuntime::open: checks the options and puts the parts together. The only file of the runtime that knows which
// devices there are.
#include <algorithm>
#include <bit>

#include "drivers/cuda/cuda_device.h"
#include "drivers/linux/flash/flash_file.h"
#include "drivers/linux/system/machine_memory.h"
#include "rivals/policies.h"
#include "runtime/device/block_size.h"
#include "runtime/device/gpu_runtime.h"
#include "runtime/open_flash.h"
#include "runtime/pace/link_speed.h"

namespace ebb {
namespace {

// What a plan takes a link to carry where it cannot be measured: half of what PCI Express 4.0 with 16 lanes does.
constexpr double kHostBytesANs = 12;
constexpr std::uint64_t kBlockBytesMin = 64 * kKiB;

[[noreturn]] void refuse(const std::string& message) { throw Error(Status::kInvalid, message); }

void check(Options& options) {
  if (options.block_bytes == 0)
    options.block_bytes = usual_gpu_block_bytes(options.device_memory, options.device_strict);
  if (!std::has_single_bit(options.block_bytes) || options.block_bytes < kBlockBytesMin ||
      options.block_bytes > kBlockBytesMax) {
    refuse("block size " + format_size(options.block_bytes) + " is not a power of two from 64 KiB to 1 GiB");
  }
  const std::uint64_t least = Core::kFramesMin * options.block_bytes;
  if (options.device_memory < least) {
    refuse("GPU memory of " + format_size(options.device_memory) + " is too small: with blocks of " +
           format_size(options.block_bytes) + " at least " + format_size(least) + " are needed (--device-memory)");
  }
  if (options.memory == 0) options.memory = read_machine_memory().default_budget_bytes() / 2;
  if (options.policy == "on_demand") {
    refuse("policy 'on_demand' waits for page faults, which a GPU does not have; choose window or foresight");
  }
  if (options.verify != "digest") {
    refuse("only a runtime without a GPU compares contents; leave --verify (EBB_VERIFY) out");
  }
  if (!options.core_dumps) {
    refuse(
        "memory that is pinned for a GPU cannot be left out of core dumps; leave --no-core-dumps (EBB_CORE_DUMPS) "
        "out, and make none (ulimit -c 0)");
  }
  if (options.flash.empty()) options.flash = default_flash_directory();
}

Core::Config core_config(const Options& options) {
  Core::Config config;
  config.block_bytes = options.block_bytes;
  config.budget_bytes = options.device_memory / options.block_bytes * options.block_bytes;
  config.tables_in_budget = false;
  config.faults = false;
  config.flash_in_ns = static_cast<double>(options.block_bytes) / kFlashBytesANs;
  const std::uint32_t frames = config.frames();
  config.queue_depth = gpu_queue_depth(config.block_bytes, frames, options.memory);
  const std::uint64_t host_blocks = options.memory / options.block_bytes;
  if (host_blocks < config.queue_depth) {
    refuse("host memory of " + format_size(options.memory) +
           " is too small: " + format_size(config.queue_depth * options.block_bytes) +
           " of it are for what comes from and goes to flash "
           "(--memory)");
  }
  config.host_extents =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(host_blocks - config.queue_depth, kExtentsMax));
  config.extents =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(options.flash_bytes / options.block_bytes, kExtentsMax));
  config.blocks = space_blocks(std::uint64_t{frames} + config.host_extents + config.extents);
  return config;
}

std::unique_ptr<GpuDevice> open_cuda(const Options& options, const Core::Config& config) {
  CudaDevice::Config wanted;
  wanted.library = options.cuda_library;
  wanted.ordinal = options.device;
  wanted.block_bytes = config.block_bytes;
  wanted.blocks = config.blocks;
  wanted.frames = config.frames();
  wanted.noted = options.device_notes ? config.host_extents : 0;
  wanted.nvrtc_library = options.nvrtc_library;
  wanted.host_bytes = TierQueue::host_bytes(config.block_bytes, config.host_extents, config.queue_depth);
  std::unique_ptr<CudaDevice> device;
  std::string reason;
  if (const Status status = CudaDevice::make(wanted, device, reason); status != Status::kOk) {
    throw Error(status, "tensors cannot live on a GPU: " + reason);
  }
  return device;
}

}  // namespace

std::shared_ptr<DeviceRuntime> DeviceRuntime::open(const Options& wanted) {
  Options options = wanted;
  check(options);
  GpuRuntime::Parts parts;
  parts.policy = make_any_policy(options.policy);
  if (parts.policy == nullptr) refuse("policy '" + options.policy + "' is unknown; choose window or foresight");
  if (!options.record.empty()) {
    auto recorder = std::make_unique<Recorder>(std::move(parts.policy), options.record_iterations);
    parts.recorder = recorder.get();
    parts.policy = std::move(recorder);
  }
  FlashFile file = FlashFile::open(options.flash);
  options.flash_bytes = file.most_bytes(options.flash_bytes);
  parts.config = core_config(options);
  parts.device = open_cuda(options, parts.config);
  parts.config.host_notes = parts.device->tells_changes();
  const double link = measure_link(*parts.device, parts.config.block_bytes);
  parts.config.host_in_ns = static_cast<double>(parts.config.block_bytes) / (link > 0 ? link : kHostBytesANs);
  if (const Status status = Timelines::make(*parts.device, parts.timelines); status != Status::kOk) {
    throw Error(status, "tensors cannot live on a GPU: it gives no events, " + std::string(name(status)));
  }
  const FlashShape shape{parts.config.queue_depth, parts.config.block_bytes, parts.config.extents};
  parts.flash = open_flash(options, std::move(file), shape, parts.flash_description);
  parts.flash_directory = options.flash;
  return std::make_shared<GpuRuntime>(options, std::move(parts));
}

}  // namespace ebb
