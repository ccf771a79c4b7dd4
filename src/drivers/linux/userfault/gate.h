// Gate: where pages of the process pass on their way into memory of ours, a frame or a device's: one huge page of
// addresses on the userfaultfd that tells its owner what becomes of the process's mappings. Used under the owner's
// lock; no function but make() allocates.
//
// The kernel refuses to move pages to it (EAGAIN) while an event of that descriptor is unread, and no change begins
// during a move: what came was taken from mappings that the owner knows. A move straight into memory whose descriptor
// tells no events would be let through between a munmap and its event, which then would drop pages of the mapping after
// it. Invariant: empty when nobody holds the lock, but for
// pages of zeros after note_touched().
#pragma once

#include <cstdint>

#include "drivers/linux/process/process_map.h"
#include "drivers/linux/process/reservation.h"
#include "drivers/linux/userfault/userfault.h"

namespace ebb {

// Userfault::move() to where nothing is, counted right: Linux 6.18 stops counting once an attempt inside the call met
// EAGAIN, and goes on moving.
Userfault::Moved move_to_empty(const Userfault& userfault, const ProcessMap& map, void* to, const void* from,
                               std::size_t bytes);

class Gate {
 public:
  Gate() = default;
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  ~Gate();
  // `faults` must outlive it.
  static Status make(const Userfault& faults, Gate& gate);

  std::byte* data() const { return base_.data(); }
  bool overlaps(std::uintptr_t begin, std::uintptr_t end) const;
  // In a forked child, which has not inherited it.
  void forget() { base_.forget(); }

  // Moves pages of the process here: how many from the beginning, absent ones included, and the kernel's error for the
  // next. A huge page stays one.
  Userfault::Moved pull(const ProcessMap& map, const void* from, std::size_t bytes);
  // Whether no change of the process's mappings is unread.
  bool settled() const { return faults_->quiet(); }
  // Whether what is here is one huge page.
  bool holds_huge(const ProcessMap& map) const;
  // Somebody has been given a page of zeros here, which nobody but us touches: who populates all memory of the process.
  void note_touched() { touched_ = true; }
  // Drops what is here, and the page tables of small pages. Raises no event.
  void clear();

 private:
  Reservation base_;
  const Userfault* faults_ = nullptr;
  bool had_small_pages_ = false;  // since it was mapped
  bool touched_ = false;          // likewise: it may not be empty
};

}  // namespace ebb
