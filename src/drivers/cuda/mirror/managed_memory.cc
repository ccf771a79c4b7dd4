// See managed_memory.h.
#include "drivers/cuda/mirror/managed_memory.h"

#include <algorithm>

#include "drivers/linux/process/reservation.h"
#include "ebb/units.h"

namespace ebb::cuda {
namespace {

constexpr int kTriesMax = 16;

// By the CPU: pages that a GPU has come home, and those that nobody has touched yet get memory.
void touch(const Access& access) {
  const auto begin = reinterpret_cast<std::uintptr_t>(access.data);
  for (std::uintptr_t at = begin; at < begin + access.bytes; at = (at / kPageBytes + 1) * kPageBytes) {
    static_cast<void>(*reinterpret_cast<const volatile char*>(at));
  }
}

bool is_there(const ProcessMap& map, const Access& access) {
  const auto begin = reinterpret_cast<std::uintptr_t>(access.data);
  if (!map.complaint(begin, access.bytes, access.written).empty()) return false;
  for (std::size_t at = 0; at < access.bytes;) {
    std::size_t run = 0;
    if (!map.present_run(begin + at, access.bytes - at, run) || run == 0) return false;
    at += run;
  }
  return true;
}

}  // namespace

ManagedMemory::ManagedMemory(const LaunchFacts& facts, const ProcessMap& map, std::span<const Access> accesses)
    : runtime_(*facts.runtime), accesses_(accesses) {
  std::uint64_t bytes = 0;
  for (const Access& access : accesses) bytes += access.bytes;
  const std::uint64_t budget = runtime_.stats().budget_bytes;
  const std::string split = "; split the launch, or give the Runtime more memory";
  if (bytes > budget / 2) {
    refuse(facts, Status::kNoMemory,
           "it uses " + format_size(bytes) + " of managed memory, more than half of the " + format_size(budget) +
               " that its Runtime may keep in memory" + split);
  }
  const std::uint64_t op = op_of("cuda " + facts.kernel);
  if (runtime_.recording()) runtime_.name_op(op, "cuda " + facts.kernel);
  ticket_ = runtime_.announce(op, accesses);
  is_announced_ = true;
  for (int i = 0; i < kTriesMax; ++i) {
    // Others may take some of it before it is held.
    std::ranges::for_each(accesses, touch);
    if (!runtime_.hold(accesses)) continue;
    if (std::ranges::all_of(accesses, [&](const Access& access) { return is_there(map, access); })) return;
    runtime_.let_go(accesses);
  }
  runtime_.retire(ticket_);
  refuse(facts, Status::kNoMemory,
         "the " + format_size(bytes) + " of managed memory that it uses cannot be held in memory beside what others " +
             "hold there" + split);
}

void ManagedMemory::give_back() {
  if (is_kept_ || !is_announced_) return;
  is_announced_ = false;
  std::ranges::for_each(accesses_, touch);
  runtime_.let_go(accesses_);
  runtime_.retire(ticket_);
}

}  // namespace ebb::cuda
