// Reservation: an aligned range of addresses, without memory until it is touched. Move-only owner of the mapping.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "ebb/status.h"

namespace ebb {

inline constexpr std::size_t kPageBytes = 4096;
inline constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

class Reservation {
 public:
  Reservation() = default;
  // Private, anonymous, `protection` as for mmap; aligned to huge pages; not inherited by fork.
  static Status make(std::size_t bytes, int protection, Reservation& reservation);
  // Whether so many addresses are to be had at this moment.
  static bool possible(std::size_t bytes);
  Reservation(Reservation&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)),
        in_core_dumps_(std::exchange(other.in_core_dumps_, true)) {}
  Reservation& operator=(Reservation&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(in_core_dumps_, other.in_core_dumps_);
    return *this;
  }
  ~Reservation();

  // Maps an aligned part of it anew, empty: small pages leave tables behind, and a huge page can be moved whole only to
  // where there are none. On failure it is as it was. What watched it does so no more.
  Status renew(std::byte* begin, std::size_t bytes, int protection);

  // Nothing of it is in a core dump from now on.
  void leave_out_of_core_dumps();
  bool in_core_dumps() const { return in_core_dumps_; }

  // In a forked child, which has not inherited the mapping: nothing to unmap.
  void forget() { data_ = nullptr, bytes_ = 0; }

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  bool holds(std::uint64_t address) const { return address - reinterpret_cast<std::uintptr_t>(data_) < bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  bool in_core_dumps_ = true;
};

}  // namespace ebb
