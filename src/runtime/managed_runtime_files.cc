// ManagedRuntime: files that the program maps. Their blocks come from the file and leave without a write; what the
// program writes to them is its own.
#include <algorithm>
#include <string>

#include "runtime/managed_runtime.h"

namespace ebb {
namespace {

constexpr std::uint64_t kPageBytes = 4096;
constexpr std::uint64_t kMappedBytesMin = kMiB;  // smaller files are left to the kernel

}  // namespace

std::span<std::byte> ManagedRuntime::map_file(const std::string& path, std::uint64_t offset, std::uint64_t bytes) {
  const auto check = [&](bool right, const std::string& why) {
    if (!right) throw Error(Status::kInvalid, "cannot map '" + path + "': " + why);
  };
  check(!child_, "a forked process has no runtime of its own; open one there");
  check(offset % kPageBytes == 0, "the offset " + std::to_string(offset) + " is not a multiple of 4096");
  std::byte* data = nullptr;
  {
    Lock lock(mutex_);
    SourceFile source;
    std::string reason;
    check(files_->open(path, source, reason) == Status::kOk, reason);
    const std::uint64_t rest = source.bytes > offset ? source.bytes - offset : 0;
    if (rest == 0 || bytes > rest) close_if_unused(source.file);
    check(rest > 0, "it ends at byte " + std::to_string(source.bytes));
    check(bytes <= rest, "it has " + std::to_string(rest) + " bytes from there on, not " + std::to_string(bytes));
    bytes = bytes == 0 ? rest : bytes;
    data = map(lock, source, offset, bytes);
  }
  if (data == nullptr) out_of_memory(bytes);
  return {data, bytes};
}

// Null: there is no room. Lock held.
std::byte* ManagedRuntime::map(Lock& lock, const SourceFile& source, std::uint64_t offset, std::uint64_t bytes) {
  tell_core();
  std::uint64_t first = 0;
  const Status status = take_addresses(lock, [&] { return core_.files().map(source.file, offset, bytes, first); });
  pump();
  after_change();
  if (status == Status::kOk) return base_ + first;
  close_if_unused(source.file);
  return nullptr;
}

void ManagedRuntime::close_if_unused(std::int32_t file) {
  if (!core_.extents().files().uses(file)) files_->close(file);
}

// Files of which nothing is in use any more. Lock held; not on the fault thread.
void ManagedRuntime::close_files() {
  for (std::int32_t file = core_.take_unused_file(); file != FilePlace::kNoFile; file = core_.take_unused_file()) {
    files_->close(file);
  }
}

void ManagedRuntime::unmap_file(std::span<std::byte> memory) {
  if (!unmap_for_program(memory)) throw Error(Status::kInvalid, "cannot unmap: nothing of a file is mapped there");
}

bool ManagedRuntime::unmap_for_program(std::span<std::byte> memory) noexcept {
  const std::uint64_t offset = offset_of(memory.data());
  if (offset >= space_bytes_) return false;
  if (child_) return true;  // the mapping is the parent's
  const Lock lock(mutex_);
  const BlockRange mapping = core_.files().find(offset);
  if (mapping.count == 0) return false;
  // Whole blocks; what is left of a block at either end stays until all of the mapping goes.
  const std::uint64_t unit = core_.block_bytes();
  const std::uint64_t end = offset + memory.size();
  tell_core();
  for (BlockIndex i = mapping.first; i != mapping.end(); i = i.next()) {
    const std::uint64_t first = i.value() * unit;
    const bool last = i.next() == mapping.end();
    if (first >= offset && (first + unit <= end || (last && first < end)) && core_.table()[i].live > 0) {
      core_.files().unmap({i, 1});
    }
  }
  if (!core_.engine().idle()) pump();
  after_change();
  return true;
}

std::byte* ManagedRuntime::map_for_program(int descriptor, std::uint64_t offset, std::uint64_t bytes) noexcept {
  if (child_ || bytes < std::max(kMappedBytesMin, 2 * core_.block_bytes())) return nullptr;
  try {
    Lock lock(mutex_);
    SourceFile source;
    std::string reason;
    if (files_->open(descriptor, source, reason) != Status::kOk) return nullptr;
    const std::uint64_t rest = source.bytes > offset ? source.bytes - offset : 0;
    // Beyond the last page of a file every touch fails.
    if (rest > 0 && bytes <= (rest + kPageBytes - 1) / kPageBytes * kPageBytes) {
      return map(lock, source, offset, std::min(bytes, rest));
    }
    close_if_unused(source.file);
  } catch (const std::exception&) {
    // There was no memory for tables.
  }
  return nullptr;
}

}  // namespace ebb
