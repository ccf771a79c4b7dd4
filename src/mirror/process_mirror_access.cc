// ProcessMirror: a device reads and writes memory of the process, wherever it is, and looks at it.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "drivers/linux/process/bounded_copy.h"
#include "drivers/linux/process/trapped_copy.h"
#include "mirror/process_mirror.h"

namespace ebb {
namespace {

constexpr std::size_t kTrappedMin = 16 * 1024;  // below, the copies of the kernel are as fast
constexpr std::uint64_t kRunPages = 512;        // of a device's memory, copied at once

std::uint64_t pages_of(std::uintptr_t address, std::size_t bytes) {
  return bytes == 0 ? 0 : (address + bytes - 1) / kPageBytes - address / kPageBytes + 1;
}

}  // namespace

MirrorResult ProcessMirror::read(std::size_t device, const void* from, std::span<std::byte> to) {
  check_device(device);
  return copy({device, reinterpret_cast<std::uintptr_t>(from), to.data(), to.size(), false});
}

MirrorResult ProcessMirror::write(std::size_t device, void* to, std::span<const std::byte> from) {
  check_device(device);
  auto* const own = const_cast<std::byte*>(from.data());
  return copy({device, reinterpret_cast<std::uintptr_t>(to), own, from.size(), true});
}

// What the kernel would let the CPU do.
MirrorResult ProcessMirror::check_span(std::uintptr_t begin, std::size_t bytes, bool write) const {
  if (bytes > -begin) return {MirrorError::kFault, 0, begin};
  for (std::uintptr_t at = begin; at < begin + bytes;) {
    Mapping mapping;
    if (!map_.find(at, mapping) || !mapping.readable) return {MirrorError::kFault, 0, at};
    if (write && !mapping.writable) return {MirrorError::kPermission, 0, at};
    at = mapping.end;
  }
  return {};
}

MirrorResult ProcessMirror::copy(Copy request) {
  MirrorResult result = check_span(request.address, request.bytes, request.write);
  if (!result.ok()) return result;
  const std::uintptr_t begin = request.address;
  Patience patience = new_patience();
  while (request.bytes > 0) {
    std::size_t done = 0;
    const Step step = copy_piece(request, done, result.error);
    request.address += done;
    request.own += done;
    request.bytes -= done;
    const bool tired = step == Step::kAgain && !patience.wait();
    if (tired && result.ok()) result.error = MirrorError::kBusy;
    if (!result.ok()) {
      result.address = request.address;
      break;
    }
  }
  result.pages = pages_of(begin, request.address - begin);
  return result;
}

// As much as lies in one place.
ProcessMirror::Step ProcessMirror::copy_piece(const Copy& request, std::size_t& done, MirrorError& error) {
  // What is the caller's is touched only without the mutex, unless it is there and not ours to serve.
  std::array<std::byte, kPageBytes> piece{};
  const std::size_t rest = std::min(request.bytes, kPageBytes - request.address % kPageBytes);
  if (request.write) std::memcpy(piece.data(), request.own, rest);
  const std::uint64_t page = request.address / kPageBytes;
  std::size_t host_bytes = rest;
  bool direct = false;
  {
    const Lock lock(mutex_);
    const Entry* const entry = directory_.find(page);
    // In the way: another device's page, and a copy of what is to be written.
    const auto away = [&](const Entry* found) {
      return found != nullptr && (found->place == Place::kDevice || (request.write && found->place != Place::kMapped));
    };
    if (away(entry) && (entry->place != Place::kDevice || entry->device != request.device)) return bring_home(page);
    if (entry != nullptr && entry->place == Place::kDevice) {
      done = device_run(request, *entry, error);
      if (error != MirrorError::kNone) return Step::kFailed;
      const auto own = reinterpret_cast<std::uintptr_t>(request.own);
      std::size_t present = 0;
      direct = !watched_.overlap(own, own + done) && map_.present_run(own, done, present);
      done = direct ? present : rest;
      std::byte* const near = direct ? request.own : piece.data();
      std::byte* const there = devices_[entry->device].address(entry->slot) + request.address % kPageBytes;
      std::memcpy(request.write ? there : near, request.write ? near : there, done);
    } else {
      const std::uint64_t end = (page / kHugePages + 1) * kHugePages;
      std::uint64_t past = page + 1;
      if (directory_.size() == 0) past = end;
      while (past < end && !away(directory_.find(past))) ++past;
      host_bytes = std::min(request.bytes, past * kPageBytes - request.address);
    }
  }
  if (done == 0) return copy_host(request, host_bytes, done, error);
  if (!request.write && !direct) std::memcpy(request.own, piece.data(), done);
  return Step::kDone;
}

// Under the mutex: how many of the bytes lie one after the other in the device's memory, up to what is copied while
// others wait for the mutex.
std::size_t ProcessMirror::device_run(const Copy& request, const Entry& first, MirrorError& error) {
  Mapping mapping;
  const bool mapped = map_.find(request.address, mapping);
  if (!mapped || !mapping.readable) error = MirrorError::kFault;
  if (mapped && request.write && !mapping.writable) error = MirrorError::kPermission;
  if (error != MirrorError::kNone) return 0;
  const std::uintptr_t end = std::min(mapping.end, request.address + request.bytes);
  std::uint64_t count = 1;
  for (; count < kRunPages && (first.page + count) * kPageBytes < end; ++count) {
    const Entry* const next = directory_.find(first.page + count);
    if (next == nullptr || next->place != Place::kDevice || next->device != first.device ||
        next->slot != first.slot + count) {
      break;
    }
  }
  return std::min(end, (first.page + count) * kPageBytes) - request.address;
}

ProcessMirror::Step ProcessMirror::copy_host(const Copy& request, std::size_t bytes, std::size_t& done,
                                             MirrorError& error) {
  std::size_t run = 0;
  long result = -1;
  int failure = 0;
  bool present = map_.present_run(request.address, bytes, run);
  if (!present) {
    const Lock lock(mutex_);
    if (watched_.holds(request.address)) {
      // Ours: put there now, so that no call has to wait for it, which it could not without the privilege.
      const Step step = make_present(request.address / kPageBytes);
      if (step != Step::kDone) return step;
      run = std::min(run, kPageBytes - request.address % kPageBytes);
      present = true;
    }
  }
  auto* const there = reinterpret_cast<std::byte*>(request.address);
  if (present && run >= kTrappedMin &&
      trapped_copy(request.write ? there : request.own, request.write ? request.own : there, run)) {
    result = static_cast<long>(run);
  } else if (present) {
    result = request.write ? write_process(request.address, request.own, run)
                           : read_process(request.own, request.address, run);
    failure = errno;
  } else {
    result = bounded_copy(request.own, request.address, run, request.write, options_.fault_timeout, failure);
  }
  if (result > 0) {
    done = static_cast<std::size_t>(result);
    return Step::kDone;
  }
  if (failure == ETIMEDOUT) {
    error = MirrorError::kBusy;
    return Step::kFailed;
  }
  if (failure == EPERM || failure == ENOSYS) {
    throw Error(Status::kUnsupported,
                "process_vm_readv is denied to this process: allow it in the container's seccomp profile");
  }
  // Gone, protected, or taken to a device between question and copy; or what no call can read, as [vvar].
  if (request.write) release_write(request.address / kPageBytes);
  Mapping mapping;
  error = check_span(request.address, 1, request.write).error;
  if (error == MirrorError::kNone && map_.find(request.address, mapping) && mapping.kind != Mapping::Kind::kAnonymous) {
    error = MirrorError::kFault;
  }
  return error == MirrorError::kNone ? Step::kAgain : Step::kFailed;
}

// Under the mutex: a page of a watched range, home or new. In somebody else's, the kernel would fill it for us too.
ProcessMirror::Step ProcessMirror::make_present(std::uint64_t page) {
  const Entry* const entry = directory_.find(page);
  if (entry != nullptr && entry->place != Place::kMapped) return bring_home(page);
  const auto zeroed = userfault_.zero(address_of(page), kPageBytes);
  return zeroed.error == EAGAIN ? Step::kAgain : Step::kDone;
}

// What was protected for a copy that an event has ended: without the privilege, a write by the kernel fails there.
void ProcessMirror::release_write(std::uint64_t page) {
  const Lock lock(mutex_);
  if (directory_.find(page) != nullptr) return;
  userfault_.protect(address_of(page), kPageBytes, false);
}

MirrorResult ProcessMirror::add(std::size_t device, std::uint64_t* address, std::uint64_t value,
                                std::uint64_t& before) {
  check_device(device);
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  if (at % sizeof value != 0) return {MirrorError::kBadRange, 0, at};
  MirrorResult result = check_span(at, sizeof value, true);
  const std::uint64_t page = at / kPageBytes;
  auto* const begin = address_of(page);
  Patience patience = new_patience();
  while (result.ok()) {
    {
      const Lock lock(mutex_);
      const Entry* const entry = directory_.find(page);
      if (entry != nullptr && entry->place == Place::kDevice && entry->device == device && entry->exclusive) {
        Mapping mapping;
        if (!map_.find(at, mapping) || !mapping.writable) return {MirrorError::kPermission, 0, at};
        std::byte* const there = devices_[device].address(entry->slot) + at % kPageBytes;
        std::memcpy(&before, there, sizeof before);
        const std::uint64_t after = before + value;
        std::memcpy(there, &after, sizeof after);
        result.pages = 1;
        return result;
      }
    }
    result = exclusive(device, begin, kPageBytes);
    if (result.error == MirrorError::kNotMigratable) {
      // Another device has it, or nobody can.
      const MirrorResult home = migrate_to_host(begin, kPageBytes);
      if (home.ok() && home.pages > 0) result = {};
    }
    if (result.ok() && !patience.wait()) result.error = MirrorError::kBusy;
  }
  result.address = at;
  return result;
}

std::vector<PageView> ProcessMirror::snapshot(std::size_t device, const void* begin, std::size_t bytes) {
  check_device(device);
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  std::vector<PageView> views(pages_of(address, bytes));
  for (std::size_t i = 0; i < views.size(); ++i) {
    PageView& view = views[i];
    const std::uint64_t page = address / kPageBytes + i;
    const Lock lock(mutex_);
    Mapping mapping;
    view.mapped = map_.find(page * kPageBytes, mapping) && mapping.readable;
    if (!view.mapped) continue;
    const Entry* const entry = directory_.find(page);
    if (entry != nullptr) {
      view.on_device = entry->device == device && entry->place != Place::kCopying;
      view.exclusive = view.on_device && entry->exclusive;
      // A private device's memory is nobody else's to read.
      view.read = view.on_device || entry->place != Place::kDevice;
      view.write = view.read && mapping.writable;
      view.huge = view.on_device && entry->huge && entry->place == Place::kDevice;
      continue;
    }
    const std::uint64_t found = map_.page(page * kPageBytes);
    view.read = (found & (ProcessMap::kPresent | ProcessMap::kSwapped)) != 0;
    view.zero = (found & ProcessMap::kZero) != 0;
    view.write = view.read && mapping.writable && !view.zero;
    view.huge = (found & ProcessMap::kHuge) != 0 || mapping.page_bytes > kPageBytes;
  }
  return views;
}

}  // namespace ebb
