// What the machine has: memory and the limits on it, swap, processor.
#include <fmt/format.h>

#include "base/processors.h"
#include "doctor/check.h"
#include "drivers/linux/system/machine_memory.h"
#include "drivers/linux/system/system_files.h"
#include "ebb/units.h"
#include "run/job/auto_memory.h"

namespace ebb::cli {
namespace {

constexpr std::uint64_t kUsableBytesWanted = 512 * kMiB;  // importing torch alone takes about half of this

std::string processor_model() {
  const std::string table = read_text("/proc/cpuinfo").value_or("");
  const std::size_t key = table.find("model name");
  if (key == std::string::npos) return "";
  const std::size_t begin = table.find(": ", key);
  const std::size_t end = table.find('\n', key);
  if (begin == std::string::npos || begin > end) return "";
  return table.substr(begin + 2, end - begin - 2);
}

}  // namespace

Check check_memory() {
  const MachineMemory memory = read_machine_memory();
  Check check{"memory", "memory", Verdict::kGood, "", "", {}};
  check.found = fmt::format("{}, {} free", format_size(memory.total_bytes), format_size(memory.available_bytes));
  if (memory.limit_bytes) {
    check.found += fmt::format("; control group limit {}, {} left", format_size(*memory.limit_bytes),
                               format_size(memory.left_bytes.value_or(0)));
  }
  const std::uint64_t automatic = AutoBudget(memory.most_bytes()).update(sample_of(memory));
  check.found += fmt::format("; default budget {}, --memory auto now {}", format_size(memory.default_budget_bytes()),
                             format_size(automatic));
  check.details = {{"total_bytes", memory.total_bytes},
                   {"available_bytes", memory.available_bytes},
                   {"default_budget_bytes", memory.default_budget_bytes()},
                   {"auto_budget_bytes", automatic}};
  check.details["limit_bytes"] = memory.limit_bytes ? nlohmann::ordered_json(*memory.limit_bytes) : nullptr;
  if (memory.usable_bytes() < kUsableBytesWanted) {
    check.verdict = Verdict::kWarning;
    check.remedy = "very little is free: end other programs, or raise the control group's limit";
  }
  return check;
}

Check check_swap() {
  const MachineMemory memory = read_machine_memory();
  Check check{"swap", "swap", Verdict::kGood, "", "", {}};
  check.found = memory.swap_bytes == 0
                    ? "none; none is needed"
                    : fmt::format("{}; not used for tensors within the budget", format_size(memory.swap_bytes));
  check.details["total_bytes"] = memory.swap_bytes;
  return check;
}

Check check_processor() {
  Check check{"processor", "processor", Verdict::kGood, "", "", {}};
  const unsigned cores = usable_processors();
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") != 0;
  const bool avx512 = __builtin_cpu_supports("avx512f") != 0;
  const std::string vectors = avx512 ? "AVX2 and AVX-512" : avx2 ? "AVX2, no AVX-512" : "neither AVX2 nor AVX-512";
  if (!avx2) {
    check.verdict = Verdict::kWarning;
    check.remedy = "works, but checksums of blocks take longer on this processor";
  }
#else
  const bool avx2 = false;
  const bool avx512 = false;
  const std::string vectors = "not x86-64";
#endif
  const std::string model = processor_model();
  check.found = fmt::format("{} {}, {}", cores, cores == 1 ? "core" : "cores", vectors);
  if (!model.empty()) check.found += fmt::format(" ({})", model);
  check.details = {{"cores", cores}, {"avx2", avx2}, {"avx512", avx512}, {"model", model}};
  return check;
}

}  // namespace ebb::cli
