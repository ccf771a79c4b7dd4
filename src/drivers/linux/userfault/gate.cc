// See gate.h.
#include "drivers/linux/userfault/gate.h"

#include <sys/mman.h>

#include <algorithm>

#include "base/check.h"
#include "drivers/linux/calls/own_mapping.h"

namespace ebb {
namespace {

bool is_huge(const ProcessMap& map, std::uintptr_t address) { return (map.page(address) & ProcessMap::kHuge) != 0; }

}  // namespace

Status Gate::make(const Userfault& faults, Gate& gate) {
  if (const Status status = Reservation::make(kHugePageBytes, PROT_READ | PROT_WRITE, gate.base_);
      status != Status::kOk) {
    return status;
  }
  gate.faults_ = &faults;
  return faults.watch(gate.data(), kHugePageBytes) == 0 ? Status::kOk : Status::kUnsupported;
}

// Nobody may be left to read the event of its end.
Gate::~Gate() {
  if (data() != nullptr) faults_->unwatch(data(), base_.bytes());
}

bool Gate::overlaps(std::uintptr_t begin, std::uintptr_t end) const {
  const auto own = reinterpret_cast<std::uintptr_t>(data());
  return begin < own + base_.bytes() && own < end;
}

Userfault::Moved move_to_empty(const Userfault& userfault, const ProcessMap& map, void* to, const void* from,
                               std::size_t bytes) {
  auto moved = userfault.move(to, from, bytes);
  if (moved.error == 0) return moved;
  // Pages go in order, so whatever lies before one that came has been dealt with.
  const auto begin = reinterpret_cast<std::uintptr_t>(to);
  for (std::size_t at = moved.bytes, run = 0; at < bytes; at += run) {
    if (map.present_run(begin + at, bytes - at, run)) moved.bytes = at + run;
  }
  return moved;
}

Userfault::Moved Gate::pull(const ProcessMap& map, const void* from, std::size_t bytes) {
  EBB_CHECK_LE(bytes, base_.bytes());
  const auto begin = reinterpret_cast<std::uintptr_t>(from);
  const bool whole = bytes == kHugePageBytes && begin % kHugePageBytes == 0 && is_huge(map, begin);
  if (touched_ || (whole && had_small_pages_)) clear();
  const auto moved = move_to_empty(*faults_, map, data(), from, bytes);
  if (!whole || !holds_huge(map)) had_small_pages_ = true;
  return moved;
}

bool Gate::holds_huge(const ProcessMap& map) const { return is_huge(map, reinterpret_cast<std::uintptr_t>(data())); }

// Unregistered, because who drops pages of a watched range waits for its event to be read, which needs the lock.
void Gate::clear() {
  faults_->unwatch(data(), base_.bytes());
  touched_ = false;
  if (base_.renew(data(), base_.bytes(), PROT_READ | PROT_WRITE) == Status::kOk) {
    had_small_pages_ = false;
  } else {
    own::madvise(data(), base_.bytes(), MADV_DONTNEED);
  }
  EBB_CHECK_EQ(faults_->watch(data(), base_.bytes()), 0);
}

}  // namespace ebb
