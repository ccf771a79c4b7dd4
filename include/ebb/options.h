// Options: everything a user can set about a Runtime. Environment variables EBB_MEMORY, EBB_FLASH, … mirror the fields.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>

#include "ebb/units.h"

namespace ebb {

struct Options {
  // The budget of the device tier in bytes: frames, small allocations and our own tables together. 0: 80 % of what
  // this process may still take (cgroup or machine).
  std::uint64_t memory = 0;
  // The most that Runtime::set_budget() may grow it to: address space and tables are made for that. 0: as `memory`.
  std::uint64_t memory_max = 0;
  // A directory on a real file system, for the flash tier. Empty: $TMPDIR or /tmp. RAM disks are refused.
  std::string flash;
  // Most bytes to use on flash. 0: 90 % of what is free there.
  std::uint64_t flash_bytes = 0;
  // on_demand: fetch when touched, first in first out, as naive unified memory does.
  // window: fetch all that an announced operator needs in one batch, evict by recency, keep a reserve of free frames.
  // foresight: window, and from the second iteration on fetch ahead and evict by the recorded future.
  std::string policy = "foresight";
  // The unit of residency; a power of two from 4 KiB. 0: usual_block_bytes() of the budget; on a GPU, where each change
  // of a mapping costs as much as copying some MiB, up to 128 MiB, a 128th of its memory at most.
  std::uint64_t block_bytes = 0;
  // 2 MiB, which is one huge page, or less: a small budget has 64 blocks at least, so that an operator that goes
  // through memory row by row or column by column finds those that it comes back to.
  static constexpr std::uint64_t usual_block_bytes(std::uint64_t memory) {
    return std::clamp(std::bit_floor(memory / 64), 64 * kKiB, 2 * kMiB);
  }
  // What is recommended where memory is touched in no order (Stats::scattered).
  static constexpr std::uint64_t kSmallBlockBytes = 256 * kKiB;
  // Allocations of fewer bytes stay in ordinary memory; they are counted against the budget.
  std::uint64_t managed_bytes_min = 64 * kKiB;
  // Files that the program maps by itself from now on (private, or only to read; not small ones) are managed, too,
  // where libebb_calls.so is loaded: under `ebb run`. One runtime in a process has them.
  bool map_files = false;
  // Where to write a trace of one iteration (docs/trace.md): first after four steps, then each time that their number
  // has doubled, and when the runtime closes; empty: nowhere.
  std::string record;
  // How many iterations to write, as they follow one another after the first two; then written as soon as they are
  // complete, and before that when their number has doubled. 1: one, which stands for all.
  std::uint32_t record_iterations = 1;
  // A trace of the program's first steps from its very beginning, as `ebb run --guide` makes it: they are planned by
  // it as later ones are by the iteration before. For the policy foresight; empty: none.
  std::string guide;
  // Where it is kept what programs do with the files that they map, so that the next run is planned from its first
  // iteration on (docs/files.md): a directory of the user's; empty: nowhere.
  std::string passes;
  // Where to publish live statistics for `ebb run`; empty: nowhere.
  std::string stats_path;
  // The socket of a job (`ebb run`) that shares one budget, at most `memory`, among its processes; empty: the budget is
  // this process's own. It has nothing until it first allocates. The number of this process among the ranks that a
  // launcher has started on this machine, and how many they are; -1: no rank.
  std::string job;
  int job_rank = -1;
  int job_ranks = 0;
  // The memory driver: "auto", "move" (userfaultfd with UFFDIO_MOVE) or "remap" (memfd and a SIGSEGV handler).
  std::string memory_driver = "auto";
  // The flash driver: "auto", "uring" or "threads".
  std::string flash_driver = "auto";
  // What goes to flash is encrypted (AES-256-XTS by libcrypto, found at run time), with a key that ends with the
  // process.
  bool encrypt = false;
  // When a block counts as unchanged and is not written again: "digest", when its checksum is that of its copy;
  // "content", when it has been compared with its copy byte by byte, for which that is read. Not with a GPU.
  std::string verify = "digest";
  // False: what is managed is left out of core dumps.
  bool core_dumps = true;
  // More than 0: tensors live on a GPU, in so many bytes of its memory; `memory` is then host memory that is pinned for
  // it, and the tier between GPU and flash (include/ebb/device.h). docs/cuda.md says what has been seen on which.
  std::uint64_t device_memory = 0;
  // What has left the GPU before leaves it again only as far as it has changed, which kernels of Ebbtide's find out.
  // They are compiled by NVRTC; without that, or off, all of it is copied. Off, because what it gains is not measured.
  bool device_notes = false;
  // Which GPU, as CUDA counts them.
  int device = 0;
  // To find what is not announced: nothing is mapped but what a running launch has announced. Slow.
  bool device_strict = false;
  // The CUDA driver's library.
  std::string cuda_library = "libcuda.so.1";
  // NVRTC and cuBLAS, for kernels and arrays on a GPU (include/ebb/cuda/stream.h). Empty: where the loader finds one.
  std::string nvrtc_library{};
  std::string cublas_library{};
};

// Options with every EBB_* variable that is set applied over the defaults: EBB_MEMORY, EBB_MEMORY_MAX, EBB_FLASH (DIR
// or DIR:SIZE), EBB_POLICY, EBB_BLOCK, EBB_MANAGED_MIN, EBB_MAP_FILES, EBB_REMEMBER (passes in the user's cache),
// EBB_STATS, EBB_JOB, EBB_RANK (RANK/RANKS), EBB_RECORD, EBB_RECORD_ITERATIONS, EBB_GUIDE, EBB_MEMORY_DRIVER,
// EBB_FLASH_DRIVER, EBB_ENCRYPT, EBB_VERIFY, EBB_CORE_DUMPS, EBB_DEVICE_MEMORY, EBB_DEVICE, EBB_DEVICE_STRICT,
// EBB_CUDA_LIBRARY, EBB_NVRTC_LIBRARY, EBB_CUBLAS_LIBRARY. Throws Error(kInvalid) naming the variable.
Options options_from_environment();

// Splits "DIR" or "DIR:SIZE" into `options.flash` and `options.flash_bytes`.
void parse_flash(const std::string& text, Options& options);

}  // namespace ebb
