// See remap_memory.h. Every mapping made by attach and detach is a new one for the kernel, and has to be kept from
// children anew; the runtime's lock, which is held around fork, makes the two steps one.
#include "drivers/linux/remap/remap_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "base/check.h"
#include "drivers/linux/calls/own_mapping.h"
#include "drivers/linux/process/signal_stack.h"
#include "drivers/linux/process/thread_stacks.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u
#endif

namespace ebb {
namespace {

constexpr int kReadWrite = PROT_READ | PROT_WRITE;
constexpr std::uint16_t kRefusedMax = 5000;  // touches in a row, of a millisecond or more
constexpr int kRefusedPauseUs = 1000;
constexpr int kAbsentFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
// Mappings that the program may still make for itself: libraries, threads, large allocations.
constexpr std::uint64_t kMapsSpare = 1000;

// Empty, or why this many attached blocks could exhaust the mappings of this process.
std::string too_many_maps(std::uint32_t frames) {
  const auto limit_text = read_line("/proc/sys/vm/max_map_count");
  const std::string maps = read_text("/proc/self/maps").value_or("");
  const auto used = static_cast<std::uint64_t>(std::count(maps.begin(), maps.end(), '\n'));
  const std::uint64_t limit = limit_text ? std::strtoull(limit_text->c_str(), nullptr, 10) : 65530;
  const std::uint64_t needed = std::uint64_t{frames} * 2 + used + kMapsSpare;
  if (needed <= limit) return {};
  return "remapping " + std::to_string(frames) + " blocks of memory may take " + std::to_string(needed) +
         " mappings and vm.max_map_count is " + std::to_string(limit) + ": use larger blocks (EBB_BLOCK), or sysctl " +
         "vm.max_map_count=" + std::to_string(needed);
}

FileDescriptor open_memory_file() {
  constexpr const char* kName = "ebb-frames";
  FileDescriptor file(::memfd_create(kName, MFD_CLOEXEC | MFD_NOEXEC_SEAL));
  if (!file.valid() && errno == EINVAL) file = FileDescriptor(::memfd_create(kName, MFD_CLOEXEC));  // before 6.3
  return file;
}

// Puts a mapping without access where, in a child, one of the parent's used to be.
bool map_absent(const Reservation& range) {
  return own::mmap(range.data(), range.bytes(), PROT_NONE, kAbsentFlags | MAP_FIXED_NOREPLACE, -1, 0) == range.data();
}

}  // namespace

Status RemapMemory::make(std::size_t block_bytes, std::uint32_t blocks, std::uint32_t frames,
                         std::unique_ptr<RemapMemory>& memory, std::string& reason) {
  const auto page_bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  if (block_bytes % page_bytes != 0) {
    reason = "blocks of " + std::to_string(block_bytes) + " bytes are not whole pages; use multiples of " +
             std::to_string(page_bytes);
    return Status::kUnsupported;
  }
  if (reason = too_many_maps(frames); !reason.empty()) return Status::kUnsupported;
  std::unique_ptr<RemapMemory> made(new RemapMemory);
  made->block_bytes_ = block_bytes;
  if (const Status status = made->map_home(frames); status != Status::kOk) {
    const bool refused = errno == EPERM || errno == ENOSYS;
    reason = std::string("no memory file (memfd) for ") + std::to_string(frames) + " blocks: " + explain(errno) +
             (refused ? "; in a container a seccomp profile that allows memfd_create is needed" : "");
    return status;
  }
  if (const Status status = Reservation::make(block_bytes * blocks, PROT_NONE, made->space_); status != Status::kOk) {
    reason = std::string("no addresses for ") + std::to_string(blocks) + " blocks: " + std::strerror(errno) +
             "; lift ulimit -v, or use less flash (EBB_FLASH=DIR:SIZE)";
    return status;
  }
  if (const Status status = made->faults_.watch(made->space_.data(), made->space_.bytes(), block_bytes);
      status != Status::kOk) {
    reason = "this process has as many spaces or open files as it can have";
    return status;
  }
  made->attached_ = ZeroedArray<Attached>(blocks);
  made->calls_ = CompletedCalls(made->space_.data(), made->space_.bytes(), true, true);
  memory = std::move(made);
  return Status::kOk;
}

Status RemapMemory::map_home(std::uint32_t frames) {
  const std::size_t bytes = block_bytes_ * frames;
  memory_fd_ = open_memory_file();
  if (!memory_fd_.valid()) return Status::kUnsupported;
  if (::ftruncate(memory_fd_.get(), static_cast<off_t>(bytes)) != 0) return Status::kNoMemory;
  if (const Status status = Reservation::make(bytes, PROT_NONE, home_); status != Status::kOk) return status;
  void* const mapped = own::mmap(home_.data(), bytes, kReadWrite, MAP_SHARED | MAP_FIXED, memory_fd_.get(), 0);
  if (mapped == MAP_FAILED) return Status::kNoMemory;
  if (own::madvise(mapped, bytes, MADV_DONTFORK) != 0) return Status::kUnsupported;
  // Where the system lets shared memory have huge pages, remapping a block is ten times faster. A core has what is
  // attached from the space, and does not need it twice.
  own::madvise(mapped, bytes, MADV_HUGEPAGE);
  own::madvise(mapped, bytes, MADV_DONTDUMP);
  return Status::kOk;
}

// At home a frame is in none anyway.
void RemapMemory::leave_out_of_core_dumps() { in_core_dumps_ = false; }

Status RemapMemory::create(FrameIndex frame) {
  std::byte* const data = home_address(frame);
  if (own::madvise(data, block_bytes_, MADV_POPULATE_WRITE) == 0) return Status::kOk;
  if (errno != EINVAL) return Status::kNoMemory;
  // Kernels before 5.14. Reserved first: to touch memory that cannot be had would be SIGBUS.
  const auto offset = static_cast<off_t>(frame.value() * block_bytes_);
  if (::fallocate(memory_fd_.get(), 0, offset, static_cast<off_t>(block_bytes_)) != 0) return Status::kNoMemory;
  std::memset(data, 0, block_bytes_);
  return Status::kOk;
}

void RemapMemory::destroy(FrameIndex frame) {
  const auto offset = static_cast<off_t>(frame.value() * block_bytes_);
  // The kernel may be interrupted in it; what stays is no more than memory that the frame will have again.
  while (::fallocate(memory_fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset,
                     static_cast<off_t>(block_bytes_)) != 0 &&
         errno == EINTR) {
  }
}

void RemapMemory::attach(FrameIndex frame, BlockIndex block) {
  EBB_CHECK(!child_);
  attached_[block.value()] = {frame, map_frame_of(block, frame), 0};
  faults_.wake(block);  // where it is not mapped, the next touch asks for it again
}

// A touch of a block that is here.
void RemapMemory::wake(BlockIndex block) {
  if (child_) return placed_[block.value()] ? faults_.here(block) : faults_.wake(block);
  Attached& attached = attached_[block.value()];
  if (!attached.frame.valid()) return faults_.wake(block);
  if (attached.mapped) return faults_.here(block);
  attached.mapped = map_frame_of(block, attached.frame);
  if (attached.mapped || ++attached.refused < kRefusedMax) {
    if (!attached.mapped) ::usleep(kRefusedPauseUs);
    return faults_.wake(block);
  }
  write_all(
      STDERR_FILENO,
      "ebb: the system refuses to map a block of memory (vm.max_map_count, ulimit -v, ulimit -l): the access fails "
      "with SIGBUS. Use larger blocks (EBB_BLOCK), or raise what limits it\n");
  faults_.fail(block);
}

Status RemapMemory::detach(BlockIndex block, [[maybe_unused]] FrameIndex frame) {
  EBB_CHECK(!child_);
  if (attached_[block.value()].mapped && !map_nothing(block)) return Status::kBusy;
  attached_[block.value()] = {};
  return Status::kOk;
}

bool RemapMemory::map_frame_of(BlockIndex block, FrameIndex frame) {
  const auto offset = static_cast<off_t>(frame.value() * block_bytes_);
  // Populated, because a page fault for every 4 KiB costs several times more.
  void* const mapped = own::mmap(address(block), block_bytes_, kReadWrite, MAP_SHARED | MAP_FIXED | MAP_POPULATE,
                                 memory_fd_.get(), offset);
  if (mapped != address(block)) return false;
  const bool kept_out = in_core_dumps_ || own::madvise(mapped, block_bytes_, MADV_DONTDUMP) == 0;
  if (kept_out && own::madvise(mapped, block_bytes_, MADV_DONTFORK) == 0) return true;
  EBB_CHECK(map_nothing(block));  // a child would work on our frames, or this block on those of another
  return false;
}

bool RemapMemory::map_nothing(BlockIndex block) {
  void* const mapped = own::mmap(address(block), block_bytes_, PROT_NONE, kAbsentFlags | MAP_FIXED, -1, 0);
  if (mapped != address(block)) return false;
  // The same as its absent neighbours, and so one mapping with them. Inherited it would be as absent in a child.
  own::madvise(mapped, block_bytes_, MADV_DONTFORK);
  return true;
}

void RemapMemory::prepare_thread() { ensure_signal_stack(); }

bool RemapMemory::threads_prepared() const { return threads_have_signal_stacks(); }

std::string RemapMemory::description() const {
  return std::string("memfd remapping with a SIGSEGV handler: ") + calls_.text() + "; needs no privilege";
}

Adoption* RemapMemory::adoption(std::string& reason) {
  reason = "the memory driver is 'remap', which has its own memory only";
  return nullptr;
}

Status RemapMemory::enter_child() {
  // The space of a parent is not inherited. That of a child is, with what it holds: a grandchild goes on from there.
  if (!child_) {
    memory_fd_.reset();
    if (!map_absent(space_) || !map_absent(home_)) return Status::kNoMemory;
    placed_.assign(space_.bytes() / block_bytes_, false);
    child_ = true;
  }
  return faults_.enter_child();
}

// Two threads may have asked for the block, and the first may have written to it by now: only the first place counts.
void RemapMemory::place(BlockIndex block, std::span<const std::byte> content) {
  EBB_CHECK(child_);
  if (content.empty() && std::find(stay_.begin(), stay_.end(), block) != stay_.end()) return fail(block);
  if (!placed_[block.value()]) {
    constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS;
    std::byte* const target = address(block);
    void* staged = own::mmap(content.empty() ? target : nullptr, block_bytes_, kReadWrite,
                             content.empty() ? kFlags | MAP_FIXED : kFlags, -1, 0);
    if (staged != MAP_FAILED && !content.empty()) {
      std::memcpy(staged, content.data(), content.size());
      void* const moved = own::mremap(staged, block_bytes_, block_bytes_, MREMAP_MAYMOVE | MREMAP_FIXED, target);
      if (moved == MAP_FAILED) own::munmap(staged, block_bytes_);
      staged = moved;
    }
    if (staged == MAP_FAILED) return fail(block);
    if (!in_core_dumps_) own::madvise(target, block_bytes_, MADV_DONTDUMP);
    placed_[block.value()] = true;
  }
  wake(block);
}

}  // namespace ebb
