// ProcessMirror: pages that userfaultfd cannot move: of read-only or locked mappings, and of private mappings of files.
#include <sys/mman.h>

#include <cerrno>

#include "base/check.h"
#include "mirror/process_mirror.h"

namespace ebb {

// The CPU's pages stay; a write by the CPU waits until it has been read, and ends the copy. Absent pages are zeros that
// only the device has.
MirrorError ProcessMirror::duplicate(const Request& request, std::uint64_t page, std::uint32_t count,
                                     std::uint32_t& taken) {
  const std::lock_guard copying(copy_mutex_);
  Duplicates copies{page, 0, count, {}};
  if (const MirrorError error = prepare_copies(request, copies); error != MirrorError::kNone) return error;
  // Without the mutex: a page that went away would be waited for.
  for (std::size_t i = 0; i < copies.count; ++i) {
    if (copies.read[i]) continue;  // absent
    const std::uintptr_t at = (page + i) * kPageBytes;
    std::size_t run = 0;
    copies.read[i] = map_.present_run(at, kPageBytes, run) &&
                     read_process(copies_.data() + i * kPageBytes, at, kPageBytes) == static_cast<long>(kPageBytes);
  }
  finish_copies(request, copies, taken);
  return taken == 0 ? MirrorError::kBusy : MirrorError::kNone;
}

MirrorError ProcessMirror::prepare_copies(const Request& request, Duplicates& copies) {
  const Lock lock(mutex_);
  if (forking_) return MirrorError::kBusy;
  std::uint32_t free_pages = 0;
  while (free_pages < copies.count && directory_.find(copies.page + free_pages) == nullptr) ++free_pages;
  if (free_pages == 0) return MirrorError::kBusy;
  const std::uint64_t page = copies.page;
  const MirrorError error = watch(request, page, free_pages);
  if (error != MirrorError::kNone) return error;
  DeviceMemory& device = devices_[request.device];
  copies.count = device.allocate(page, free_pages, copies.first_slot);
  if (copies.count == 0) return MirrorError::kNoMemory;
  int refused = userfault_.protect(address_of(page), copies.count * kPageBytes, true);
  for (std::uint32_t i = 0; i < copies.count; ++i) {
    std::size_t run = 0;
    copies.read[i] = !map_.present_run((page + i) * kPageBytes, kPageBytes, run);
  }
  // What is absent because it was remapped is not zeros.
  if (refused == 0 && !gate_.settled()) refused = EAGAIN;
  if (refused != 0) {
    device.release(copies.first_slot, copies.count);
    return refused == EAGAIN ? MirrorError::kBusy : MirrorError::kBadRange;
  }
  for (std::uint32_t i = 0; i < copies.count; ++i) {
    const std::uint32_t slot = copies.first_slot + i;
    if (copies.read[i]) EBB_CHECK_EQ(device.zero(slot), 0);
    enter(request, page + i, slot, 1, copies.read[i] ? Place::kDevice : Place::kCopying);
  }
  return MirrorError::kNone;
}

// Faults and events may have come meanwhile: then the entry is gone, or elsewhere. `taken` counts what is settled from
// the beginning; what comes after a page that failed is found in the directory the next time.
void ProcessMirror::finish_copies(const Request& request, const Duplicates& copies, std::uint32_t& taken) {
  const Lock lock(mutex_);
  DeviceMemory& device = devices_[request.device];
  // What was read of a mapping that has changed since may have been another's.
  const bool settled = gate_.settled();
  bool whole = true;
  for (std::uint32_t i = 0; i < copies.count; ++i) {
    const std::uint32_t slot = copies.first_slot + i;
    const std::uint64_t page = device.page_of(slot);
    Entry* const entry = page == 0 ? nullptr : directory_.find(page);
    const bool here = entry != nullptr && entry->slot == slot && entry->device == request.device;
    bool done = here && page == copies.page + i && entry->place != Place::kCopying;
    if (here && entry->place == Place::kCopying) {
      done = settled && copies.read[i] && page == copies.page + i;
      if (done) {
        EBB_CHECK_EQ(device.refill(slot, copies_.data() + i * kPageBytes, 1), 0);
        entry->place = Place::kDuplicate;
        ++stats_.pages_to_device;
      } else if (end_copy(*entry) == Step::kAgain) {
        drop(*entry);  // its next write ends the protection
      }
    }
    whole = whole && done;
    if (whole) ++taken;
  }
}

// The CPU's page is written again from now on, or has gone.
ProcessMirror::Step ProcessMirror::end_copy(const Entry& entry) {
  if (userfault_.protect(address_of(entry.page), kPageBytes, false) == EAGAIN) return Step::kAgain;
  stats_.pages_to_host += entry.place == Place::kDuplicate ? 1 : 0;
  drop(entry);
  return Step::kDone;
}

// A mapping of its own, on the device already, takes the file's place in one step. Without the mutex: it raises events.
MirrorError ProcessMirror::take_file(const Request& request, const Mapping& mapping, std::uint64_t page,
                                     std::uint32_t count, std::uint32_t& taken) {
  const std::size_t bytes = count * kPageBytes;
  void* const overlay = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (overlay == MAP_FAILED) return MirrorError::kNoMemory;
  MirrorError error = MirrorError::kNone;
  if (read_process(overlay, page * kPageBytes, bytes) != static_cast<long>(bytes)) error = MirrorError::kFault;
  if (error == MirrorError::kNone) {
    const Request moving{request.device, request.exclusive, false};
    error = migrate(moving, reinterpret_cast<std::uintptr_t>(overlay), bytes).error;
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
