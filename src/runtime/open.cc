// Runtime::open: checks the options, chooses drivers by what this machine allows, and puts the parts together. The only
// file of the runtime that knows which drivers there are.
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "base/digest.h"
#include "core/heap_places.h"
#include "drivers/linux/calls/completed_calls.h"
#include "drivers/linux/files/opened_files.h"
#include "drivers/linux/flash/encrypted_flash.h"
#include "drivers/linux/flash/flash_file.h"
#include "drivers/linux/flash/thread_flash.h"
#include "drivers/linux/process/reservation.h"
#include "drivers/linux/remap/remap_memory.h"
#include "drivers/linux/system/machine_memory.h"
#include "drivers/linux/userfault/move_memory.h"
#include "drivers/uring/uring_flash.h"
#include "ebb/device.h"
#include "plan/guide/make_guide.h"
#include "plan/recorder.h"
#include "rivals/policies.h"
#include "runtime/managed_runtime.h"
#include "runtime/open_flash.h"
#include "trace/reader.h"
#include "trace/summary.h"

namespace ebb {
namespace {

constexpr std::uint64_t kBlockBytesMin = 4 * kKiB;
constexpr std::uint64_t kSpaceForFilesBytes = 1024 * kGiB;
constexpr std::uint64_t kSpaceForFilesBlocks = 1u << 19;

[[noreturn]] void refuse(const std::string& message) { throw Error(Status::kInvalid, message); }

// Memory beside frames and tables that moving blocks takes.
std::uint64_t buffer_bytes(const Options& options) {
  const std::size_t block = options.block_bytes;
  return (options.encrypt ? EncryptedFlash::buffer_bytes(block, kQueueDepth) : 0) +
         (options.verify == "content" ? CheckedFlash::buffer_bytes(block, kQueueDepth) : 0);
}

void check(Options& options) {
  if (options.memory == 0) options.memory = read_machine_memory().default_budget_bytes();
  if (options.block_bytes == 0)
    options.block_bytes = Options::usual_block_bytes(options.memory / std::max(options.job_ranks, 1));
  if (!std::has_single_bit(options.block_bytes) || options.block_bytes < kBlockBytesMin ||
      options.block_bytes > kBlockBytesMax) {
    refuse("block size " + format_size(options.block_bytes) + " is not a power of two from 4 KiB to 1 GiB");
  }
  if (options.verify != "digest" && options.verify != "content") {
    refuse("verification '" + options.verify + "' is unknown; choose digest or content");
  }
  const std::uint64_t least = Core::budget_bytes_min(options.block_bytes) + buffer_bytes(options);
  if (options.memory < least) {
    refuse("a memory budget of " + format_size(options.memory) + " is too small: with blocks of " +
           format_size(options.block_bytes) + " at least " + format_size(least) + " are needed");
  }
  options.memory_max = std::max(options.memory_max, options.memory);
  if (!options.job.empty()) {
    options.memory_max = options.memory;
    options.memory = least;  // and not even that before it is needed
  }
  options.managed_bytes_min = std::max<std::uint64_t>(options.managed_bytes_min, 1);
  if (options.managed_bytes_min > options.memory_max / 4) {
    refuse("tensors of less than " + format_size(options.managed_bytes_min) +
           " (--managed-min, EBB_MANAGED_MIN) stay in memory whatever the budget is, and that is " +
           format_size(options.memory_max) + ": give at most a quarter of it");
  }
  if (options.flash.empty()) options.flash = default_flash_directory();
}

// Why frames cannot be moved here, and what would change that.
std::string why_no_move(Status status) {
  Userfault userfault;
  if (Userfault::open(userfault) != Status::kOk) {
    return "userfaultfd is denied to this process: sysctl vm.unprivileged_userfaultfd=1, CAP_SYS_PTRACE, or in a "
           "container a seccomp profile that allows userfaultfd";
  }
  if (!userfault.can_move()) return "userfaultfd of this kernel has no UFFDIO_MOVE: Linux 6.8 or later is needed";
  PageMoves moves;
  if (PageMoves::open(userfault, moves) != Status::kOk) {
    return "/proc/self/pagemap cannot be read: there is no /proc, or this process has changed its user since it was "
           "started (start it anew as that user)";
  }
  return "userfaultfd cannot watch the space (" + std::string(name(status)) + "): lift ulimit -v, or use less flash " +
         "(EBB_FLASH=DIR:SIZE)";
}

std::unique_ptr<SpaceMemory> open_memory(const Options& options, const Core::Config& config) {
  const std::string& driver = options.memory_driver;
  if (driver != "auto" && driver != "move" && driver != "remap") {
    refuse("memory driver '" + driver + "' is unknown; choose auto, move or remap");
  }
  const std::uint32_t frames = config.frames();
  std::string reasons;
  if (driver != "remap") {
    std::unique_ptr<MoveMemory> memory;
    const Status status = MoveMemory::make(options.block_bytes, config.blocks, frames, memory);
    if (status == Status::kOk) return memory;
    reasons = why_no_move(status);
    if (driver == "move") throw Error(status, "memory driver 'move' cannot be used: " + reasons);
    reasons += "; and ";
  }
  std::unique_ptr<RemapMemory> memory;
  std::string reason;
  const Status status = RemapMemory::make(options.block_bytes, config.blocks, frames, memory, reason);
  if (status == Status::kOk) return memory;
  throw Error(status, "memory driver '" + driver + "' cannot be used: " + reasons + reason);
}

// Room for what memory and flash hold, and beyond it for files that are larger than both: a checkpoint that is only
// read takes neither. Where addresses are scarce (ulimit -v, a system that overcommits nothing) most are the program's.
void choose_space(Core::Config& config) {
  const std::uint64_t blocks = space_blocks(std::uint64_t{config.frames()} + config.extents);
  std::uint64_t beyond = std::min<std::uint64_t>(kSpaceForFilesBytes / config.block_bytes, kSpaceForFilesBlocks);
  while (beyond > 0 && !Reservation::possible(kSpaceFactor * (blocks + beyond) * config.block_bytes)) beyond /= 2;
  config.blocks = static_cast<std::uint32_t>(blocks + beyond);
  config.blocks_beyond = static_cast<std::uint32_t>(beyond);
}

// Operators of PyTorch may be named without their namespace.
std::uint64_t op_of_traced(const std::string& name) {
  return op_of(name.find("::") == std::string::npos ? "aten::" + name : name);
}

// What the program is going to need at once is made while it starts.
void take_guide(const Options& options, Core::Config& config, Policy& policy) {
  const Trace trace = read_trace(options.guide);
  HeapPlaces places(config, options.managed_bytes_min);
  std::unique_ptr<Guide> guide =
      make_guide(trace, places, [&trace](std::uint32_t op) { return op_of_traced(trace.ops[op]); });
  if (guide == nullptr) return;  // nothing in it is managed, or it is too long
  if (!policy.take_guide(std::move(guide))) {
    refuse("a guide is of no use to the policy '" + options.policy + "'; leave it out, or choose foresight");
  }
  config.frames_ahead = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(config.frames(), summarize(trace).peak_bytes / config.block_bytes));
}

// A system without random numbers leaves them as they are published.
void seed_at_random() {
  std::uint64_t seed = 0;
  if (::getentropy(&seed, sizeof seed) == 0) seed_digests(seed);
}

std::unique_ptr<RawFlash> open_driver(const Options& options, FlashFile file, std::uint32_t depth,
                                      std::string& description) {
  const std::string& driver = options.flash_driver;
  if (driver != "auto" && driver != "uring" && driver != "threads") {
    refuse("flash driver '" + driver + "' is unknown; choose auto, uring or threads");
  }
  const std::string how = file.direct() ? " with O_DIRECT" : " through the page cache";
  if (driver != "threads") {
    std::unique_ptr<UringFlash> flash;
    const Status status = UringFlash::make(file, depth, flash);
    if (status == Status::kOk) {
      description = "io_uring" + how;
      return flash;
    }
    if (driver == "uring") {
      throw Error(status,
                  "flash driver 'uring' cannot be used: io_uring is denied to this process: sysctl "
                  "kernel.io_uring_disabled=0, or in a container a seccomp profile that allows io_uring_setup");
    }
  }
  std::unique_ptr<ThreadFlash> flash;
  if (const Status status = ThreadFlash::make(file, depth, flash); status != Status::kOk) {
    throw Error(status, "flash driver '" + driver + "' cannot be used: no thread can be started; lift ulimit -u");
  }
  description = "threads" + how;
  return flash;
}

}  // namespace

std::unique_ptr<RawFlash> open_flash(const Options& options, FlashFile file, const FlashShape& shape,
                                     std::string& description) {
  std::unique_ptr<RawFlash> device = open_driver(options, std::move(file), shape.depth, description);
  if (!options.encrypt) return device;
  std::unique_ptr<EncryptedFlash> encrypted;
  std::string reason;
  const Status status = EncryptedFlash::make({shape.block_bytes, shape.extents}, device, encrypted, reason);
  if (status != Status::kOk) throw Error(status, reason);
  description += std::string(", encrypted with ") + BlockCipher::kName;
  return encrypted;
}

std::shared_ptr<Runtime> Runtime::open(const Options& wanted) {
  seed_at_random();
  if (wanted.device_memory > 0) {
    if (!wanted.guide.empty()) refuse("a guide is for a runtime without a GPU; leave it out (EBB_GUIDE)");
    return DeviceRuntime::open(wanted);
  }
  Options options = wanted;
  check(options);
  ManagedRuntime::Parts parts;
  parts.policy = make_any_policy(options.policy);
  if (parts.policy == nullptr) {
    refuse("policy '" + options.policy + "' is unknown; choose on_demand, window or foresight");
  }
  Policy* const planner = parts.policy.get();
  if (!options.record.empty()) {
    auto recorder = std::make_unique<Recorder>(std::move(parts.policy), options.record_iterations);
    parts.recorder = recorder.get();
    parts.policy = std::move(recorder);
  }
  FlashFile file = FlashFile::open(options.flash);
  options.flash_bytes = file.most_bytes(options.flash_bytes);
  Core::Config& config = parts.config;
  config.block_bytes = options.block_bytes;
  config.budget_bytes = options.memory_max;
  config.queue_depth = kQueueDepth;
  config.buffer_bytes = buffer_bytes(options);
  config.flash_in_ns = static_cast<double>(options.block_bytes) / kFlashBytesANs;
  config.extents =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(options.flash_bytes / options.block_bytes, kExtentsMax));
  choose_space(config);
  config.cache_bytes_a_block = RangeTable::bytes_a_block(options.block_bytes);
  if (!options.guide.empty()) take_guide(options, config, *planner);
  parts.memory = open_memory(options, config);
  if (!options.core_dumps) parts.memory->leave_out_of_core_dumps();
  const FlashShape shape{kQueueDepth, config.block_bytes, config.extents};
  parts.flash = open_flash(options, std::move(file), shape, parts.flash_description);
  if (options.verify == "content") parts.flash_description += ", what is unchanged compared with its copy";
  parts.files = std::make_unique<OpenedFiles>();
  parts.flash_directory = options.flash;
  if (!options.job.empty()) {
    JobMessage hello;
    hello.rank = options.job_rank;
    hello.ranks = static_cast<std::uint32_t>(options.job_ranks);
    hello.least_bytes = options.memory;
    hello.most_bytes = options.memory_max;
    parts.job = std::make_unique<JobMember>(options.job, hello);
  }
  before_end_of_process(ManagedRuntime::before_end_of_process);
  const bool guided = config.frames_ahead > 0;
  auto runtime = std::make_shared<ManagedRuntime>(options, std::move(parts));
  if (guided) runtime->enter_job();
  return runtime;
}

}  // namespace ebb
