// See declared_uses.h.
#include "drivers/cuda/mirror/declared_uses.h"

#include <cinttypes>
#include <cstdio>
#include <limits>

#include "ebb/device.h"

namespace ebb::cuda {
namespace {

Access access_of(const Use& use) {
  Access access;
  access.data = use.data;
  access.bytes = use.bytes;
  access.allocation = use.allocation != nullptr ? use.allocation : use.data;
  access.written = use.kind != Use::Kind::kReads;
  access.overwritten = use.kind == Use::Kind::kOverwrites;
  return access;
}

std::string what(const Access& access) {
  return std::string("it ") + (access.written ? "writes " : "reads ") + std::to_string(access.bytes) + " bytes at " +
         hex(access.data);
}

void check_range(const LaunchFacts& facts, const Access& access) {
  if (access.data == nullptr) refuse(facts, Status::kInvalid, what(access) + ", a null pointer");
  if (access.bytes > std::numeric_limits<std::uintptr_t>::max() - reinterpret_cast<std::uintptr_t>(access.data)) {
    refuse(facts, Status::kInvalid, what(access) + ", more than there are addresses after it; check the count");
  }
}

// Whether it is the runtime's.
bool check_managed(const LaunchFacts& facts, const Access& access) {
  if (facts.runtime == nullptr) return false;
  const auto* const last = static_cast<const std::byte*>(access.data) + access.bytes - 1;
  const bool managed = facts.runtime->manages(access.data);
  if (managed != facts.runtime->manages(last)) {
    refuse(facts, Status::kInvalid,
           what(access) + ", of which one end is managed memory, and the other is not; check the count");
  }
  if (!managed) return false;
  if (dynamic_cast<DeviceRuntime*>(facts.runtime) != nullptr) {
    refuse(facts, Status::kInvalid,
           "its memory is that of a Runtime on a GPU; start kernels on it with a CudaStream (ebb/cuda/stream.h)");
  }
  if (facts.runtime->lost({&access, 1})) {
    refuse(facts, Status::kCorrupt, what(access) + ", a part of which flash has lost; write that memory anew first");
  }
  return true;
}

}  // namespace

void refuse(const LaunchFacts& facts, Status status, const std::string& why) {
  throw Error(status, "launch of the CUDA kernel '" + facts.kernel + "' failed: " + why);
}

std::string hex(const void* address) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%" PRIxPTR, reinterpret_cast<std::uintptr_t>(address));
  return text;
}

std::vector<Access> check_uses(const LaunchFacts& facts, const ProcessMap& map, std::span<const Use> uses) {
  std::vector<Access> managed;
  for (const Use& use : uses) {
    if (use.bytes == 0) continue;
    const Access access = access_of(use);
    check_range(facts, access);
    if (check_managed(facts, access)) {
      managed.push_back(access);
      continue;
    }
    const std::string found =
        map.complaint(reinterpret_cast<std::uintptr_t>(access.data), access.bytes, access.written);
    if (found.empty()) continue;
    refuse(facts, Status::kInvalid,
           what(access) + ", of which " + found + "; pass memory that is mapped so until the kernel is over" +
               (facts.runtime == nullptr ? ", and with managed memory its Runtime" : ""));
  }
  return managed;
}

}  // namespace ebb::cuda
