// Runtime::open: checks the options, chooses drivers by what this machine allows, and puts the parts together. The only
// file of the runtime that knows which drivers there are.
#include <algorithm>
#include <bit>
#include <cstdlib>

#include "drivers/linux/flash_file.h"
#include "drivers/linux/machine_memory.h"
#include "drivers/linux/move_memory.h"
#include "drivers/uring/uring_flash.h"
#include "runtime/managed_runtime.h"

namespace ebb {
namespace {

constexpr std::uint64_t kBlockBytesMin = 4 * kKiB;
constexpr std::uint64_t kBlockBytesMax = kGiB;
constexpr std::uint32_t kExtentsMax = 1u << 22;
constexpr std::uint32_t kBlocksMax = 1u << 22;
constexpr std::uint32_t kQueueDepth = 32;
// Addresses are free, and room to spare keeps ranges of different sizes from crowding each other.
constexpr std::uint64_t kSpaceFactor = 4;

[[noreturn]] void refuse(const std::string& message) { throw Error(Status::kInvalid, message); }

void check(Options& options) {
  if (!std::has_single_bit(options.block_bytes) || options.block_bytes < kBlockBytesMin ||
      options.block_bytes > kBlockBytesMax) {
    refuse("block size " + format_size(options.block_bytes) + " is not a power of two from 4 KiB to 1 GiB");
  }
  if (options.memory == 0) options.memory = read_machine_memory().default_budget_bytes();
  const std::uint64_t least = (Core::kFramesMin + 1) * options.block_bytes + kMiB;
  if (options.memory < least) {
    refuse("a memory budget of " + format_size(options.memory) + " is too small: with blocks of " +
           format_size(options.block_bytes) + " at least " + format_size(least) + " are needed");
  }
  options.managed_bytes_min = std::max<std::uint64_t>(options.managed_bytes_min, 1);
  if (options.flash.empty()) options.flash = default_flash_directory();
}

std::unique_ptr<SpaceMemory> open_memory(const Options& options, const Core::Config& config) {
  const std::uint32_t frames = Core::frames_of(config);
  std::unique_ptr<MoveMemory> memory;
  const Status status = MoveMemory::make(options.block_bytes, config.blocks, frames, memory);
  if (status == Status::kOk) return memory;
  throw Error(status, "this kernel cannot move memory: " + std::string(name(status)));
}

std::unique_ptr<RawFlash> open_flash(const Options& /*options*/, FlashFile file, std::string& description) {
  std::unique_ptr<UringFlash> uring;
  const bool direct = file.direct();
  if (UringFlash::make(file, kQueueDepth, uring) != Status::kOk) {
    throw Error(Status::kUnsupported, "io_uring is not available");
  }
  description = direct ? "io_uring with O_DIRECT" : "io_uring through the page cache";
  return uring;
}

}  // namespace

std::shared_ptr<Runtime> Runtime::open(const Options& wanted) {
  Options options = wanted;
  check(options);
  ManagedRuntime::Parts parts;
  parts.policy = make_policy(options.policy);
  if (parts.policy == nullptr) {
    refuse("policy '" + options.policy + "' is unknown; choose on_demand, window or foresight");
  }
  FlashFile file = FlashFile::open(options.flash);
  if (options.flash_bytes == 0) options.flash_bytes = file.free_bytes() / 10 * 9;
  Core::Config& config = parts.config;
  config.block_bytes = options.block_bytes;
  config.budget_bytes = options.memory;
  config.queue_depth = kQueueDepth;
  config.extents =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(options.flash_bytes / options.block_bytes, kExtentsMax));
  const std::uint64_t blocks = (std::uint64_t{Core::frames_of(config)} + config.extents) * kSpaceFactor;
  config.blocks = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(blocks, 4096, kBlocksMax)) / 4 * 4;
  parts.memory = open_memory(options, config);
  parts.flash = open_flash(options, std::move(file), parts.flash_description);
  parts.flash_directory = options.flash;
  return std::make_shared<ManagedRuntime>(options, std::move(parts));
}

}  // namespace ebb
