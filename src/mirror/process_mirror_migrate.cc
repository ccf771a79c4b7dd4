// ProcessMirror: pages on their way to a device. What userfaultfd cannot move: process_mirror_special.cc.
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "drivers/linux/calls/own_mapping.h"
#include "mirror/process_mirror.h"

namespace ebb {
namespace {

constexpr int kUnshareMax = 4;
// The kernel may refuse to move a page with EAGAIN for as long as it is what it is: seen on Linux 6.18 with pages that
// a child got from its parent. Then the device gets copies, as of read-only ones.
constexpr int kMoveAttemptsMax = 8;

void fail(MirrorResult& result, MirrorError error, std::uint64_t page) {
  if (result.error != MirrorError::kNone) return;
  result.error = error;
  result.address = page * kPageBytes;
}

}  // namespace

MirrorResult ProcessMirror::migrate_to_device(std::size_t device, void* begin, std::size_t bytes) {
  return migrate({.device = device, .exclusive = false}, reinterpret_cast<std::uintptr_t>(begin), bytes);
}

MirrorResult ProcessMirror::exclusive(std::size_t device, void* begin, std::size_t bytes) {
  return migrate({.device = device, .exclusive = true}, reinterpret_cast<std::uintptr_t>(begin), bytes);
}

// Whether memory of this kind can go to a device at all.
MirrorError ProcessMirror::judge(const Mapping& mapping) const {
  if (mapping.kind == Mapping::Kind::kSpecial || mapping.page_bytes != kPageBytes) return MirrorError::kBadRange;
  if (!mapping.readable) return MirrorError::kBadRange;
  if (mapping.shared) return MirrorError::kNotMigratable;
  const bool replaceable = !mapping.executable && (!mapping.writable || options_.replace_file_mappings);
  if (mapping.kind == Mapping::Kind::kFile && !replaceable) return MirrorError::kNotMigratable;
  return MirrorError::kNone;
}

MirrorResult ProcessMirror::migrate(Request request, std::uintptr_t begin, std::size_t bytes) {
  check_device(request.device);
  MirrorResult result;
  if (bytes == 0 || begin % kPageBytes != 0 || bytes % kPageBytes != 0 || bytes > -begin ||
      is_own(begin, begin + bytes)) {
    return {MirrorError::kBadRange, 0, begin};
  }
  const std::uintptr_t end = begin + bytes;
  request.begin = begin;
  request.end = end;
  for (std::uintptr_t at = begin; at < end;) {
    Mapping mapping;
    if (!map_.find(at, mapping)) return {MirrorError::kBadRange, 0, at};
    if (const MirrorError error = judge(mapping); error != MirrorError::kNone) return {error, 0, at};
    at = mapping.end;
  }
  Patience patience = new_patience();
  std::uint64_t page = begin / kPageBytes;
  int unshared = 0, attempts = 0;  // on this page
  while (page < end / kPageBytes) {
    const std::uint64_t before = page;
    const std::uint64_t chunk = std::min<std::uint64_t>(end / kPageBytes, (page / kHugePages + 1) * kHugePages);
    const Step step = take_some(request, page, chunk, result);
    if (page != before) unshared = attempts = 0;
    request.copied = step == Step::kAgain && ++attempts > kMoveAttemptsMax;
    if (step == Step::kUnshare && ++unshared <= kUnshareMax) {
      // Shared with a child: a write by the kernel, which changes nothing, gives this process a page of its own.
      ::madvise(address_of(page), kPageBytes, MADV_POPULATE_WRITE);
    } else if (step == Step::kUnshare) {
      fail(result, MirrorError::kBusy, page++);
      unshared = 0;
    } else if (step == Step::kAgain && !patience.wait()) {
      fail(result, MirrorError::kBusy, page);
      return result;
    }
  }
  return result;
}

// One attempt on the pages from `page` on, up to `end`; advances `page` over what is settled.
ProcessMirror::Step ProcessMirror::take_some(const Request& request, std::uint64_t& page, std::uint64_t end,
                                             MirrorResult& result) {
  Lock lock(mutex_);
  if (forking_) return Step::kAgain;
  if (const Entry* const found = directory_.find(page); found != nullptr) {
    const Step step = renew(request, *found, result);
    if (step == Step::kDone) ++page;
    return step;
  }
  Mapping mapping;
  const bool mapped = map_.find(page * kPageBytes, mapping);
  if (const MirrorError error = mapped ? judge(mapping) : MirrorError::kBadRange; error != MirrorError::kNone) {
    fail(result, error, page++);
    return Step::kDone;
  }
  end = std::min<std::uint64_t>(end, mapping.end / kPageBytes);
  std::uint32_t count = 1;
  while (page + count < end && directory_.find(page + count) == nullptr) ++count;
  std::uint32_t taken = 0;
  MirrorError error = MirrorError::kNone;
  Step step = Step::kFailed;
  const bool anonymous = mapping.kind == Mapping::Kind::kAnonymous;
  if (request.exclusive && !mapping.writable) error = MirrorError::kPermission;
  if (anonymous && mapping.writable && !request.copied) step = take(request, page, count, taken, error);
  const bool copied = anonymous && step == Step::kFailed && error == MirrorError::kNone;
  if (copied && (request.exclusive || !userfault_.can_protect())) error = MirrorError::kNotMigratable;
  if (step == Step::kFailed && error == MirrorError::kNone) {
    lock.unlock();
    error = anonymous ? duplicate(request, page, count, taken) : take_file(request, mapping, page, count, taken);
    step = Step::kDone;
  }
  page += taken;
  result.pages += taken;
  if (taken == 0 && error == MirrorError::kBusy) return Step::kAgain;  // a matter of moments
  if (taken == 0 && error != MirrorError::kNone) {
    fail(result, error, page++);
    return Step::kDone;
  }
  return step;
}

// A page that a device has already.
ProcessMirror::Step ProcessMirror::renew(const Request& request, const Entry& start, MirrorResult& result) {
  Entry entry = start;
  if (entry.device != request.device) {
    fail(result, MirrorError::kNotMigratable, entry.page);
    return Step::kDone;
  }
  if (entry.place == Place::kCopying) return Step::kAgain;
  if (request.exclusive && entry.place == Place::kDuplicate) {
    Mapping mapping;
    if (map_.find(entry.page * kPageBytes, mapping) && !mapping.writable) {
      fail(result, MirrorError::kPermission, entry.page);
      return Step::kDone;
    }
    end_copy(entry);  // it goes the way of all pages
    return Step::kAgain;
  }
  DeviceMemory& device = devices_[entry.device];
  if (request.exclusive && entry.place == Place::kMapped) {
    const auto taken = device.take(map_, gate_, entry.slot, address_of(entry.page), 1);
    if (taken.error == EBUSY) return Step::kUnshare;
    if (taken.error != 0) {
      drop(entry);  // it is the host's, and goes the way of all pages
      return Step::kAgain;
    }
    directory_.find(entry.page)->place = entry.place = Place::kDevice;
  }
  if (request.exclusive) directory_.find(entry.page)->exclusive = entry.exclusive = true;
  const bool to_map = device.kind() == DeviceKind::kCoherent && !entry.exclusive && entry.place == Place::kDevice;
  if (to_map && map_coherent(entry.page) == Step::kAgain) return Step::kAgain;
  ++result.pages;
  return Step::kDone;
}

// Moves pages of a writable anonymous mapping. kFailed without an error: this mapping cannot be moved from.
ProcessMirror::Step ProcessMirror::take(const Request& request, std::uint64_t page, std::uint32_t count,
                                        std::uint32_t& taken, MirrorError& error) {
  error = watch(request, page, count);
  if (error != MirrorError::kNone) return Step::kFailed;
  DeviceMemory& device = devices_[request.device];
  std::uint32_t first = 0;
  count = device.allocate(page, count, first);
  if (count == 0) {
    error = MirrorError::kNoMemory;
    return Step::kFailed;
  }
  const auto moved = device.take(map_, gate_, first, address_of(page), count);
  taken = static_cast<std::uint32_t>(moved.bytes / kPageBytes);
  if (taken < count) device.release(first + taken, count - taken);
  enter(request, page, first, taken, Place::kDevice);
  if (taken == 0) {
    return moved.error == EBUSY ? Step::kUnshare : moved.error == EAGAIN ? Step::kAgain : Step::kFailed;
  }
  return Step::kDone;
}

// Touches must come to us before pages are taken. Of the mapping everything that is asked for is watched at once: part
// by part it would be several mappings for a while, or for good when it is replaced meanwhile, and mremap() moves one.
MirrorError ProcessMirror::watch(const Request& request, std::uint64_t page, std::uint32_t count) {
  const std::uintptr_t begin = page * kPageBytes;
  const std::uintptr_t end = begin + count * kPageBytes;
  if (watched_.covers(begin, end)) return MirrorError::kNone;
  Mapping mapping;
  if (map_.find(begin, mapping)) {
    const std::uintptr_t from = std::max(request.begin, mapping.begin);
    const std::uintptr_t to = std::min(request.end, mapping.end);
    if (from <= begin && end <= to && watch_range(from, to) == MirrorError::kNone) return MirrorError::kNone;
  }
  return watch_range(begin, end);
}

MirrorError ProcessMirror::watch_range(std::uintptr_t begin, std::uintptr_t end) {
  const int error = userfault_.watch(reinterpret_cast<void*>(begin), end - begin, userfault_.can_protect());
  if (error == EBUSY && may_be_inherited()) return MirrorError::kBusy;
  if (error == EBUSY) return MirrorError::kNotMigratable;  // somebody else's userfaultfd serves it
  if (error != 0) return error == ENOMEM ? MirrorError::kNoMemory : MirrorError::kBadRange;
  // Else an event that is unread may be of the mapping before, and would take the range off the list.
  if (!gate_.settled()) return MirrorError::kBusy;
  if (watched_.add(begin, end)) return MirrorError::kNone;
  userfault_.unwatch(reinterpret_cast<void*>(begin), end - begin);
  return MirrorError::kNoMemory;
}

// Pages that have arrived in the device's slots. A coherent device's are copied into memory of its own, and put back
// under the CPU's address from there.
void ProcessMirror::enter(const Request& request, std::uint64_t page, std::uint32_t slot, std::uint32_t count,
                          Place place) {
  DeviceMemory& device = devices_[request.device];
  const bool huge = count == kHugePages && page % kHugePages == 0 && slot % kHugePages == 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    device.set_page(slot + i, page + i);
    directory_.insert({page + i, slot + i, static_cast<std::uint8_t>(request.device), place, request.exclusive, huge});
  }
  if (place == Place::kCopying) return;
  stats_.pages_to_device += count;
  if (device.kind() == DeviceKind::kPrivate || request.exclusive || count == 0) return;
  std::memcpy(bounce_.data(), device.address(slot), count * kPageBytes);
  EBB_CHECK_EQ(device.refill(slot, bounce_.data(), count), 0);
  // Those that must wait for an event are put there by the CPU's touch.
  for (std::uint32_t i = 0; i < count; ++i) {
    if (map_coherent(page + i) == Step::kAgain) break;
  }
}

ProcessMirror::Step ProcessMirror::map_coherent(std::uint64_t page) {
  Entry* const entry = directory_.find(page);
  DeviceMemory& device = devices_[entry->device];
  const auto moved = userfault_.move(address_of(page), device.address(entry->slot), kPageBytes);
  if (moved.error != 0 && device.holds(map_, entry->slot)) {
    // Read-only by now: the kernel puts copies there, but moves none.
    const auto copied = userfault_.copy(address_of(page), device.address(entry->slot), kPageBytes);
    if (copied.error == EAGAIN || (copied.error != 0 && !gate_.settled())) return Step::kAgain;  // as in copy_back()
    if (copied.error != 0) {
      userfault_.wake(address_of(page), kPageBytes);
      drop(*entry);
      return Step::kDone;
    }
    device.discard(entry->slot, 1);
  }
  entry->place = Place::kMapped;
  return Step::kDone;
}

}  // namespace ebb
