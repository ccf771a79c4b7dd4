// What CUDA offers: driver and GPUs, pinned memory. Nothing needs any of it, so the absence of a GPU is no fault of the
// machine; a driver that does not work is.
#include <fmt/format.h>

#include <algorithm>

#include "doctor/check.h"
#include "drivers/cuda/cuda_probe.h"
#include "drivers/linux/system/machine_memory.h"
#include "drivers/linux/system/system_files.h"
#include "ebb/options.h"
#include "ebb/units.h"

namespace ebb::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kPinnedBytes = 64 * kMiB;

// Whether there is a GPU as far as the kernel knows: then CUDA has to work, too.
bool has_kernel_driver() { return read_line("/proc/driver/nvidia/version").has_value(); }

std::string describe(const cuda::GpuFacts& gpu) {
  return fmt::format("{} (compute capability {}.{}), {}, {}, {}", gpu.name, gpu.capability / 10, gpu.capability % 10,
                     format_size(gpu.memory_bytes),
                     gpu.virtual_memory ? "virtual memory API" : "no virtual memory API, which tensors on it need",
                     !gpu.pageable_access   ? "no access to pageable memory, which ebb::CudaMirror needs"
                     : gpu.host_page_tables ? "access to pageable memory by the host's page tables (ebb::CudaMirror)"
                                            : "access to pageable memory by HMM (ebb::CudaMirror)");
}

}  // namespace

Check check_cuda() {
  Check check{"cuda", "CUDA", Verdict::kGood, "", "", {}};
  cuda::CudaFacts facts;
  std::string reason;
  const Status status = cuda::probe(options_from_environment().cuda_library, facts, reason);
  check.details["kernel_driver"] = read_line("/proc/driver/nvidia/version").value_or("");
  auto gpus = Json::array();
  for (const cuda::GpuFacts& gpu : facts.gpus) {
    check.found += (check.found.empty() ? "" : "; ") + describe(gpu);
    gpus.push_back({{"name", gpu.name},
                    {"memory_bytes", gpu.memory_bytes},
                    {"compute_capability", fmt::format("{}.{}", gpu.capability / 10, gpu.capability % 10)},
                    {"virtual_memory", gpu.virtual_memory},
                    {"pageable_memory_access", gpu.pageable_access},
                    {"host_page_tables", gpu.host_page_tables}});
  }
  check.details["gpus"] = std::move(gpus);
  if (status == Status::kOk) {
    check.found = fmt::format("{}.{}: {}", facts.version / 1000, facts.version % 1000 / 10, check.found);
    check.details["version"] = facts.version;
    const bool can_all = std::ranges::all_of(facts.gpus, [](const auto& gpu) { return gpu.virtual_memory; });
    if (can_all) return check;
    check.verdict = Verdict::kWarning;
    check.remedy = "choose a GPU that has it with --device; programs without --device-memory work as they are";
    return check;
  }
  check.details["reason"] = reason;
  if (status == Status::kUnsupported && !has_kernel_driver()) {
    check.found = "no GPU; none is needed";
    return check;
  }
  check.verdict = Verdict::kWarning;
  check.found = reason;
  check.remedy = "see what nvidia-smi says; programs without --device-memory work as they are";
  return check;
}

Check check_pinned_memory() {
  Check check{"pinned_memory", "pinned memory", Verdict::kGood, "", "", {}};
  const std::string library = options_from_environment().cuda_library;
  cuda::CudaFacts facts;
  std::string reason;
  if (cuda::probe(library, facts, reason) != Status::kOk) {
    check.found = "not examined: there is no GPU that CUDA can use";
    check.details["reason"] = reason;
    return check;
  }
  const Status status = cuda::probe_pinning(library, kPinnedBytes, reason);
  const std::uint64_t free = read_machine_memory().usable_bytes();
  check.details["tried_bytes"] = kPinnedBytes;
  check.details["usable_bytes"] = free;
  check.found =
      fmt::format("{} can be pinned for the GPU; the driver pins as much as is free ({}), whatever ulimit -l says",
                  format_size(kPinnedBytes), format_size(free));
  if (status == Status::kOk) return check;
  check.verdict = Verdict::kWarning;
  check.found = reason;
  check.remedy = "free host memory, or raise the container's limit: ulimit -l does not matter to CUDA";
  return check;
}

}  // namespace ebb::cli
