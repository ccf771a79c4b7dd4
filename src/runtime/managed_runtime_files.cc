// ManagedRuntime: files that the program maps. Their blocks come from the file and leave without a write; what the
// program writes to them is its own.
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "runtime/managed_runtime.h"
#include "runtime/tell.h"

namespace ebb {
namespace {

constexpr std::uint64_t kFilePageBytes = 4096;
constexpr std::uint64_t kMappedBytesMin = kMiB;  // smaller files are left to the kernel

struct Free {
  void operator()(std::byte* bytes) const { std::free(bytes); }
};

}  // namespace

std::span<std::byte> ManagedRuntime::map_file(const std::string& path, std::uint64_t offset, std::uint64_t bytes) {
  const auto check = [&](bool right, const std::string& why) {
    if (!right) throw Error(Status::kInvalid, "cannot map '" + path + "': " + why);
  };
  check(!child_, "a forked process has no runtime of its own; open one there");
  check(offset % kFilePageBytes == 0, "the offset " + std::to_string(offset) + " is not a multiple of 4096");
  enter_job();
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
    data = map(lock, source, offset, bytes, false);
    if (data == nullptr) close_if_unused(source.file);
  }
  if (data == nullptr) out_of_memory(bytes);
  return {data, bytes};
}

// Null: there is no room. Lock held.
std::byte* ManagedRuntime::map(Lock& lock, const SourceFile& source, std::uint64_t offset, std::uint64_t bytes,
                               bool shared) {
  tell_core();
  std::uint64_t first = 0;
  const Status status =
      take_addresses(lock, [&] { return core_.files().map(source.file, offset, bytes, first, shared); });
  pump();
  after_change();
  if (status == Status::kOk) {
    recall(source.file);
    if (!source.direct && !std::exchange(told_cached_, true)) {
      tell("ebb: '%.300s' %s. Best is a copy on a disk\n", files_->name(source.file),
           source.in_memory ? "lies in a RAM disk: what is mapped of it is in memory twice"
                            : "cannot be read past the page cache (its file system has no O_DIRECT): what is read of "
                              "it lies there, too, outside the budget, until the kernel needs the room");
    }
    return base_ + first;
  }
  return nullptr;
}

// Once: it is in no budget, although it could be.
void ManagedRuntime::tell_left_to_kernel(std::uint64_t bytes, const char* name, const std::string& why) {
  if (std::exchange(told_left_, true)) return;
  tell("ebb: %s of '%.300s' are left to the kernel, outside the budget: %s\n", format_size(bytes).c_str(), name,
       why.c_str());
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

FileMapper::Kinds ManagedRuntime::kinds_for_program(std::span<const std::byte> memory) noexcept {
  const std::uint64_t offset = offset_of(memory.data());
  if (offset >= space_bytes_) return {false, false, true};
  Lock lock(mutex_, std::defer_lock);
  if (!child_) lock.lock();  // there nothing changes any more
  const MappedFiles::Kinds kinds = core_.files().kinds(offset, memory.size());
  return {kinds.files, kinds.shared, kinds.other};
}

int ManagedRuntime::discard_for_program(std::span<std::byte> memory) noexcept {
  const std::uint64_t unit = core_.block_bytes();
  const std::unique_ptr<std::byte, Free> buffer(static_cast<std::byte*>(std::aligned_alloc(kFilePageBytes, unit)));
  if (buffer == nullptr) return EAGAIN;
  while (!memory.empty()) {
    const std::uint64_t bytes = std::min<std::uint64_t>(unit - offset_of(memory.data()) % unit, memory.size());
    if (const int error = discard_in_block(memory.first(bytes), {buffer.get(), bytes}); error != 0) return error;
    memory = memory.subspan(bytes);
  }
  return 0;
}

// Memory within one block, in whole pages. Where the block cannot begin anew, and for a part of it, what the file has
// is copied there.
int ManagedRuntime::discard_in_block(std::span<std::byte> memory, std::span<std::byte> buffer) {
  const std::uint64_t unit = core_.block_bytes();
  const std::uint64_t offset = offset_of(memory.data());
  const BlockIndex block(static_cast<std::uint32_t>(offset / unit));
  const std::uint64_t before = offset % unit;
  FlashRequest read;
  {
    Lock lock(mutex_, std::defer_lock);
    if (!child_) lock.lock();
    if (!child_ && core_.table()[block].live == 0) return 0;  // the program has unmapped it
    read.place = core_.files().place_of(block);
    if (!child_ && read.place.valid()) {
      if (before == 0 && memory.size() >= read.place.bytes && renew(lock, block)) return 0;
      const Block& there = core_.table()[block];
      if (there.state == BlockState::kOnFlash && ExtentPool::in_file(there.extent)) return 0;
    }
  }
  if (!read.place.valid() || before >= read.place.bytes) {
    std::memset(memory.data(), 0, memory.size());
    return 0;
  }
  read.place.offset += before;
  read.place.bytes = static_cast<std::uint32_t>(std::min<std::uint64_t>(read.place.bytes - before, memory.size()));
  if (flash_.read_now(read, buffer) != Status::kOk) {
    Lock lock(mutex_, std::defer_lock);
    if (!child_) lock.lock();
    tell("ebb: '%.300s' cannot be read any more, or has shrunk: madvise(MADV_DONTNEED) fails with EIO\n",
         files_->name(read.place.file));
    return EIO;
  }
  std::memcpy(memory.data(), buffer.data(), memory.size());
  return 0;
}

// The block is as the file has it, once it is touched again. Lock held.
bool ManagedRuntime::renew(Lock& lock, BlockIndex block) {
  constexpr int kTurnsMax = 50;
  constexpr std::chrono::milliseconds kOneTurn{10};
  tell_core();
  bool done = core_.files().renew(block);
  for (int turn = 0; !done && turn < kTurnsMax; ++turn) {
    const BlockState state = core_.table()[block].state;
    if (state != BlockState::kEvicting && state != BlockState::kFetching) break;
    changed_.wait_for(lock, kOneTurn);
    done = core_.files().renew(block);
  }
  if (!core_.engine().idle()) pump();
  after_change();
  return done;
}

std::byte* ManagedRuntime::map_for_program(int descriptor, std::uint64_t offset, std::uint64_t bytes,
                                           bool shared) noexcept {
  const bool small = bytes < std::max(kMappedBytesMin, 2 * core_.block_bytes());
  if (child_ || small || offset % kFilePageBytes != 0) return nullptr;
  try {
    enter_job();
    Lock lock(mutex_);
    SourceFile source;
    std::string reason;
    if (const Status status = files_->open(descriptor, source, reason); status != Status::kOk) {
      if (status == Status::kNoMemory) tell_left_to_kernel(bytes, "a file", reason);
      return nullptr;
    }
    const std::uint64_t rest = source.bytes > offset ? source.bytes - offset : 0;
    // Whole pages, as by the kernel, and beyond the last page of a file every touch fails.
    bytes = (bytes + kFilePageBytes - 1) / kFilePageBytes * kFilePageBytes;
    const bool all = rest > 0 && bytes <= (rest + kFilePageBytes - 1) / kFilePageBytes * kFilePageBytes;
    // What is in a RAM disk would be in memory twice.
    if (all && !source.in_memory) {
      if (std::byte* const data = map(lock, source, offset, std::min(bytes, rest), shared)) return data;
      const bool tables = bytes < space_bytes_ && !core_.budget().tables_fit(2 * (bytes / core_.block_bytes() + 2));
      reason = tables ? "the tables of so much do not fit into it; give it more memory (--memory, EBB_MEMORY)"
                      : "too few are free of the addresses for " + format_size(space_bytes_) +
                            " of files and tensors; more flash (--flash DIR:SIZE, EBB_FLASH) makes more, as does a "
                            "higher ulimit -v";
      tell_left_to_kernel(bytes, files_->name(source.file), reason);
    }
    close_if_unused(source.file);
  } catch (const std::exception&) {
    // There was no memory for tables.
  }
  return nullptr;
}

}  // namespace ebb
