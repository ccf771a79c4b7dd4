// The implementations of SpaceMemory, by name, for the suites that run on all of them. Stateless; any thread.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "drivers/linux/remap/remap_memory.h"
#include "drivers/linux/userfault/move_memory.h"

#if defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadSanitizer = true;
#else
inline constexpr bool kThreadSanitizer = false;
#endif

namespace ebb::conformance {

enum class SpaceDriver { kMove, kRemap };

inline const char* name(SpaceDriver driver) { return driver == SpaceDriver::kMove ? "Move" : "Remap"; }

// What suites run on that try blocks of several sizes.
struct SpaceCase {
  SpaceDriver driver;
  std::size_t block_bytes;
};
inline std::string title(const testing::TestParamInfo<SpaceCase>& info) {
  return std::string(name(info.param.driver)) + std::to_string(info.param.block_bytes / 1024) + "KiB";
}
inline auto all_space_cases() {
  using enum SpaceDriver;
  constexpr std::size_t kPage = 4096, kSome = 64 * 1024, kHuge = 2048 * 1024;
  return testing::Values(SpaceCase{kMove, kPage}, SpaceCase{kMove, kSome}, SpaceCase{kMove, kHuge},
                         SpaceCase{kRemap, kPage}, SpaceCase{kRemap, kSome}, SpaceCase{kRemap, kHuge});
}

// Null with the reason where this machine lacks what the driver needs.
inline std::unique_ptr<SpaceMemory> make_space(SpaceDriver driver, std::size_t block_bytes, std::uint32_t blocks,
                                               std::uint32_t frames, std::string& reason) {
  if (driver == SpaceDriver::kMove) {
    std::unique_ptr<MoveMemory> memory;
    if (MoveMemory::make(block_bytes, blocks, frames, memory) == Status::kOk) return memory;
    reason = "userfaultfd with UFFDIO_MOVE is not to be had here";
    return nullptr;
  }
  if (kThreadSanitizer) {
    reason = "the thread sanitizer takes a remapping for a write by the thread that remaps";
    return nullptr;
  }
  std::unique_ptr<RemapMemory> memory;
  if (RemapMemory::make(block_bytes, blocks, frames, memory, reason) == Status::kOk) return memory;
  return nullptr;
}

// Whether a system call on an absent block waits for it; otherwise it fails with EFAULT.
inline bool serves_system_calls(const SpaceMemory& memory) {
  return memory.description().find("EFAULT") == std::string::npos;
}

}  // namespace ebb::conformance
