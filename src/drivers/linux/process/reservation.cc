// See reservation.h.
#include "drivers/linux/process/reservation.h"

#include <sys/mman.h>

#include "base/check.h"

namespace ebb {

Status Reservation::make(std::size_t bytes, int protection, Reservation& reservation) {
  const std::size_t rounded = (bytes + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
  const std::size_t wide = rounded + kHugePageBytes;
  void* mapping = ::mmap(nullptr, wide, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) return Status::kNoMemory;
  auto* const begin = static_cast<std::byte*>(mapping);
  const std::size_t skew = reinterpret_cast<std::uintptr_t>(begin) % kHugePageBytes;
  const std::size_t head = skew == 0 ? 0 : kHugePageBytes - skew;
  if (head > 0) ::munmap(begin, head);
  if (wide - head > rounded) ::munmap(begin + head + rounded, wide - head - rounded);
  reservation = Reservation();
  reservation.data_ = begin + head;
  reservation.bytes_ = rounded;
  if (::madvise(reservation.data_, rounded, MADV_DONTFORK) != 0) return Status::kUnsupported;
  return Status::kOk;
}

bool Reservation::possible(std::size_t bytes) {
  Reservation ignored;
  return make(bytes, PROT_READ | PROT_WRITE, ignored) == Status::kOk;
}

Status Reservation::renew(std::byte* begin, std::size_t bytes, int protection) {
  EBB_CHECK(holds(reinterpret_cast<std::uintptr_t>(begin)) && begin + bytes <= data_ + bytes_);
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  if (::mmap(begin, bytes, protection, kFlags, -1, 0) == MAP_FAILED) return Status::kNoMemory;
  EBB_CHECK_EQ(::madvise(begin, bytes, MADV_DONTFORK), 0);
  if (!in_core_dumps_) EBB_CHECK_EQ(::madvise(begin, bytes, MADV_DONTDUMP), 0);
  return Status::kOk;
}

void Reservation::leave_out_of_core_dumps() {
  EBB_CHECK_EQ(::madvise(data_, bytes_, MADV_DONTDUMP), 0);
  in_core_dumps_ = false;
}

Reservation::~Reservation() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

}  // namespace ebb
