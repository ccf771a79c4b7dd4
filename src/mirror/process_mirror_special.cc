// ProcessMirror: pages that userfaultfd cannot move: of read-only or locked mappings, and of private mappings of files.
// These calls raise events, so they are made without the mutex.
#include <sys/mman.h>

#include <cerrno>

#include "base/check.h"
#include "mirror/process_mirror.h"

namespace ebb {
namespace {

void* address_of(std::uint64_t page) { return reinterpret_cast<void*>(page * kPageBytes); }

}  // namespace

// Takes the page table entries away with mremap, which does so whatever the protection is, atomically: a touch from
// then on waits. From the staging area they are copied into the device's memory.
MirrorError ProcessMirror::take_read_only(const Request& request, std::uint64_t page, std::uint32_t count,
                                          std::uint32_t& taken) {
  const std::lock_guard staging(staging_mutex_);
  if (const MirrorError error = prepare_leaving(request, page, count); error != MirrorError::kNone) return error;
  const std::size_t bytes = leaving_.count * kPageBytes;
  constexpr int kHow = MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP;
  const void* const moved = ::mremap(address_of(page), bytes, bytes, kHow, staging_.data());
  // The pages lie in a mapping that still tells events, and whose absent pages would wait for us.
  if (moved != MAP_FAILED) userfault::unwatch(faults_fd_.get(), staging_.data(), bytes);
  finish_leaving(request, moved != MAP_FAILED, taken);
  void* const renewed = ::mmap(staging_.data(), staging_.size(), PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  EBB_CHECK(renewed == staging_.data());
  return moved == MAP_FAILED ? MirrorError::kBadRange : MirrorError::kNone;
}

MirrorError ProcessMirror::prepare_leaving(const Request& request, std::uint64_t page, std::uint32_t count) {
  const Lock lock(mutex_);
  if (forking_) return MirrorError::kBusy;
  std::uint32_t free_pages = 0;
  while (free_pages < count && directory_.find(page + free_pages) == nullptr) ++free_pages;
  if (free_pages == 0) return MirrorError::kBusy;
  const MirrorError error = watch(page * kPageBytes, (page + free_pages) * kPageBytes);
  if (error != MirrorError::kNone) return error;
  std::uint32_t first = 0;
  count = devices_[request.device].allocate(page, free_pages, first);
  if (count == 0) return MirrorError::kNoMemory;
  enter(request, page, first, count, Place::kLeaving);
  leaving_ = {static_cast<std::uint8_t>(request.device), first, count};
  return MirrorError::kNone;
}

// Events may have come meanwhile: a slot knows where its page is now, or that it is gone.
void ProcessMirror::finish_leaving(const Request& request, bool moved, std::uint32_t& taken) {
  const Lock lock(mutex_);
  DeviceMemory& device = devices_[request.device];
  for (std::uint32_t i = 0; i < leaving_.count; ++i) {
    const std::uint32_t slot = leaving_.first_slot + i;
    const std::uint64_t page = device.page_of(slot);
    Entry* const entry = page == 0 ? nullptr : directory_.find(page);
    const bool still = entry != nullptr && entry->place == Place::kLeaving && entry->slot == slot;
    if (!still) {
      taken += moved ? 1 : 0;
      continue;
    }
    if (!moved) {
      drop(*entry);
      continue;
    }
    const std::byte* const from = staging_.data() + i * kPageBytes;
    std::size_t run = 0;
    const bool present = map_.present_run(reinterpret_cast<std::uintptr_t>(from), kPageBytes, run);
    EBB_CHECK_EQ(present ? device.refill(slot, from, 1) : device.zero(slot), 0);
    entry->place = Place::kDevice;
    ++stats_.pages_to_device;
    ++taken;
    const bool to_map = device.kind() == DeviceKind::kCoherent && !request.exclusive;
    if (to_map && map_coherent(page) == Step::kAgain) continue;  // then the CPU's touch does it
  }
  leaving_ = {};
}

// A mapping of its own, on the device already, takes the file's place in one step.
MirrorError ProcessMirror::take_file(const Request& request, const Mapping& mapping, std::uint64_t page,
                                     std::uint32_t count, std::uint32_t& taken) {
  const std::size_t bytes = count * kPageBytes;
  void* const overlay = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (overlay == MAP_FAILED) return MirrorError::kNoMemory;
  MirrorError error = MirrorError::kNone;
  if (read_process(overlay, page * kPageBytes, bytes) != static_cast<long>(bytes)) error = MirrorError::kFault;
  if (error == MirrorError::kNone) {
    error = migrate(request, reinterpret_cast<std::uintptr_t>(overlay), bytes).error;
  }
  if (error == MirrorError::kNone) {
    ::mprotect(overlay, bytes, PROT_READ | (mapping.writable ? PROT_WRITE : 0));
    Mapping now;
    const bool same = map_.find(page * kPageBytes, now) && now.begin == mapping.begin && now.end == mapping.end &&
                      now.writable == mapping.writable && now.kind == mapping.kind;
    // The remap event takes the directory along.
    if (same && ::mremap(overlay, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, address_of(page)) != MAP_FAILED) {
      taken = count;
      return MirrorError::kNone;
    }
    error = MirrorError::kBadRange;
  }
  ::munmap(overlay, bytes);
  return error;
}

}  // namespace ebb
