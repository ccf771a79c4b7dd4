// ProcessMirror: pages on their way home. All under the mutex but home_pages() and home_all(), which take it.
#include <algorithm>
#include <cerrno>

#include "base/check.h"
#include "mirror/process_mirror.h"

namespace ebb {

// Forgets the page and what the device has of it.
void ProcessMirror::drop(const Entry& entry) {
  const Entry gone = entry;  // `entry` may lie in the table
  directory_.erase(gone.page);
  devices_[gone.device].release(gone.slot, 1);
}

ProcessMirror::Step ProcessMirror::bring_home(std::uint64_t page) {
  Entry* const found = directory_.find(page);
  if (found == nullptr) return Step::kDone;
  const Entry entry = *found;
  if (entry.place == Place::kDuplicate || entry.place == Place::kCopying) return end_copy(entry);
  if (entry.place == Place::kMapped) return withdraw(entry);
  if (devices_[entry.device].kind() == DeviceKind::kCoherent && !entry.exclusive) return copy_back(entry);
  if (!entry.huge || entry.slot % kHugePages != page % kHugePages) return give_back(entry, 1);
  // The whole huge page, if it still is one: one move, and it stays huge.
  const std::uint64_t head = page - page % kHugePages;
  const auto slot = static_cast<std::uint32_t>(entry.slot - page % kHugePages);
  for (std::uint32_t i = 0; i < kHugePages; ++i) {
    const Entry* const part = directory_.find(head + i);
    const bool whole = part != nullptr && part->device == entry.device && part->slot == slot + i &&
                       part->place == Place::kDevice && part->exclusive == entry.exclusive;
    if (!whole) return give_back(entry, 1);
  }
  return give_back(*directory_.find(head), kHugePages);
}

// Moves `count` pages from adjacent slots back under their adjacent addresses.
ProcessMirror::Step ProcessMirror::give_back(const Entry& start, std::uint32_t count) {
  const Entry first = start;
  DeviceMemory& device = devices_[first.device];
  for (std::uint32_t done = 0; done < count;) {
    const auto moved =
        userfault_.move(address_of(first.page + done), device.address(first.slot + done), (count - done) * kPageBytes);
    auto pages = static_cast<std::uint32_t>(moved.bytes / kPageBytes);
    while (moved.error != 0 && done + pages < count && !device.holds(map_, first.slot + done + pages)) ++pages;
    for (std::uint32_t i = done; i < done + pages; ++i) directory_.erase(first.page + i);
    if (pages > 0) device.release(first.slot + done, pages);
    stats_.pages_to_host += pages;
    done += pages;
    if (done == count) return Step::kDone;
    if (pages > 0) continue;
    // The mapping became read-only, locked, or is gone, or an event is unread: a copy tells which.
    if (const Step step = copy_back(*directory_.find(first.page + done)); step != Step::kDone) return step;
    ++done;
  }
  return Step::kDone;
}

ProcessMirror::Step ProcessMirror::copy_back(const Entry& start) {
  const Entry entry = start;
  const auto copied = userfault_.copy(address_of(entry.page), devices_[entry.device].address(entry.slot), kPageBytes);
  // A mapping that is being moved away is missed before the kernel looks for its event.
  if (copied.error == EAGAIN || (copied.error != 0 && !gate_.settled())) return Step::kAgain;
  EBB_CHECK_NE(copied.error, EFAULT);
  // Any other error: the mapping is gone, or has a page of its own by now. Then the device's is of no use.
  if (copied.error != 0) userfault_.wake(address_of(entry.page), kPageBytes);
  drop(entry);
  ++stats_.pages_to_host;
  return Step::kDone;
}

// A page that the CPU uses in a coherent device's memory: taken out of there, then copied into memory of the host.
ProcessMirror::Step ProcessMirror::withdraw(const Entry& start) {
  const Entry entry = start;
  const auto taken = devices_[entry.device].take(map_, gate_, entry.slot, address_of(entry.page), 1);
  if (taken.error != 0) {
    // Pinned, read-only or shared with a child: it stays where it is, as memory of the host.
    drop(entry);
    ++stats_.pages_to_host;
    return Step::kDone;
  }
  directory_.find(entry.page)->place = Place::kDevice;
  return copy_back(entry);
}

MirrorResult ProcessMirror::home_pages(std::uint64_t first, std::uint64_t end) {
  MirrorResult result;
  Patience patience = new_patience();
  for (std::uint64_t page = first; page < end;) {
    Step step = Step::kDone;
    {
      const Lock lock(mutex_);
      const std::uint64_t before = stats_.pages_to_host;
      // Some at a time: the event thread wants the lock too.
      for (std::size_t i = 0; i < kHugePages && page < end && step == Step::kDone; ++i) {
        step = bring_home(page);
        if (step == Step::kDone) ++page;
      }
      result.pages += stats_.pages_to_host - before;
    }
    if (step != Step::kDone && !patience.wait()) {
      result.error = MirrorError::kBusy;
      result.address = page * kPageBytes;
      return result;
    }
  }
  return result;
}

bool ProcessMirror::home_all(std::size_t device) {
  Patience patience = new_patience();
  for (std::uint32_t slot = 0; slot < devices_[device].slots();) {
    bool again = false;
    {
      const Lock lock(mutex_);
      for (std::size_t i = 0; i < kHugePages && slot < devices_[device].slots() && !again; ++i) {
        const std::uint64_t page = devices_[device].page_of(slot);
        const bool held = page != 0;
        if (held && (page == DeviceMemory::kPromised || bring_home(page) != Step::kDone)) {
          again = true;
        } else {
          ++slot;
        }
      }
    }
    if (again && !patience.wait()) return false;
  }
  return true;
}

MirrorResult ProcessMirror::migrate_to_host(void* begin, std::size_t bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  if (bytes == 0 || address % kPageBytes != 0 || bytes % kPageBytes != 0 || bytes > -address) {
    return {MirrorError::kBadRange, 0, address};
  }
  return home_pages(address / kPageBytes, (address + bytes) / kPageBytes);
}

MirrorResult ProcessMirror::evict(std::size_t device) {
  check_device(device);
  MirrorResult result;
  const std::uint64_t before = stats().pages_to_host;
  if (!home_all(device)) result.error = MirrorError::kBusy;
  result.pages = stats().pages_to_host - before;
  return result;
}

}  // namespace ebb
