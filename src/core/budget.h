// Budget: how many frames and extents there may be: frames, small allocations and the core's own tables share the
// memory budget, which may change at any time, and flash is taken in steps, before it is needed.
//
// Owned by Core, under the runtime's lock; the driver's side of it says what small allocations take, makes frames ahead
// and grows flash. Nothing here allocates. Invariant: the limit of frames leaves room for tables as they are, and
// slack.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/state.h"
#include "ebb/status.h"
#include "ebb/units.h"

namespace ebb {

class Budget {
 public:
  // Tables of a fixed size with the staging that a driver may need, and what tables grow by between two looks at them.
  static constexpr std::uint64_t kFixedBytes = 192 * kKiB;
  static constexpr std::uint64_t kTableSlackBytes = 64 * kKiB;
  static constexpr std::uint64_t kTableBytesMin = kFixedBytes + kTableSlackBytes;

  explicit Budget(CoreState& state)
      : state_(state),
        bytes_(state.config.budget_bytes),
        extents_limit_(state.config.extents),
        extents_most_(state.config.extents) {}

  // What frames, small allocations and tables get together from now on, from least_bytes() to what the core was made
  // for. Frames beyond it leave as any do, and have left once over() is false; more come as they are needed.
  void set_bytes(std::uint64_t bytes);
  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t most_bytes() const { return state_.config.budget_bytes; }
  // Below this there are too few frames to run with, or a place is missing for what is alive.
  std::uint64_t least_bytes() const;

  // The part that small allocations take, and the part that is kept free for them, which is no less. They may be made
  // once over() is false: as many frames have left.
  void set_small_bytes(std::uint64_t bytes, std::uint64_t kept);
  // What the tables of ranges kept for reuse take.
  void set_cache_bytes(std::uint64_t bytes);
  bool over() const { return state_.frames.over(); }
  std::uint32_t frames_limit() const { return state_.frames.limit(); }
  std::uint64_t flash_most_bytes() const { return extents_most_ * state_.config.block_bytes; }
  std::uint64_t flash_limit_bytes() const { return extents_limit_ * state_.config.block_bytes; }
  std::uint64_t small_bytes() const { return small_bytes_; }
  std::uint64_t resident_bytes() const;

  // Whether so many blocks more have a place each even when nothing else can leave, a frame or an extent: also once the
  // tables of all extents, and of so much of the space that nobody has used yet, have taken their part.
  bool has_places(std::uint64_t blocks, std::uint64_t unused) const;
  // Whether the tables of so many blocks, or extents, more leave the least number of frames beside them.
  bool tables_fit(std::uint64_t more) const;
  // Before tables grow by those of so many blocks, or extents: what frames there may be beside them. False: first some
  // have to leave.
  bool prepare(std::uint64_t more);
  // Tables may have grown: the limit follows if by more than half the slack, or if `now`.
  void tables_grew(bool now = false);

  // A frame worth making before it is needed, or none; the driver has its memory created, for which it need not hold
  // the lock, and says what came of it.
  bool wants_frame_ahead() const;
  bool making_frame_ahead() const { return state_.frames.making_ahead() > 0; }
  FrameIndex begin_frame_ahead() { return wants_frame_ahead() ? state_.frames.begin_ahead() : FrameIndex::none(); }
  void end_frame_ahead(FrameIndex frame, Status status);

  // How many there may ever be; what the device has no room for stays out of it.
  void set_flash_bytes(std::uint64_t bytes);
  // Whether there should be more: not all that is alive, with so many blocks more, could be there twice, for the
  // program and for a child that it forks; or evictions stand still.
  bool wants_flash(std::uint64_t blocks) const;

  // Whether what is alive has no place each yet, because flash has not grown to it; the device may refuse.
  bool owes_extents() const { return state_.extents.capacity() < std::min(extents_owed(), extents_limit_); }
  // How many extents should exist, if more than there are; the driver makes room and says how many there are now.
  std::uint32_t extents_wanted() const;
  // To how many extents the device can grow from `now`, up to `wanted`: where it has less left than that, half of the
  // step may still fit. reserve(count): whether it has made room for so many.
  template <typename Reserve>
  static std::uint32_t grown(std::uint32_t now, std::uint32_t wanted, Reserve&& reserve) {
    std::uint32_t more = wanted - now;
    while (more > 0 && !reserve(now + more)) more /= 2;
    return now + more;
  }
  void set_extents(std::uint32_t count, bool more_to_come);

 private:
  void apply(std::uint64_t to_come = 0);
  std::uint64_t table_bytes() const;
  std::uint64_t table_bytes_of(std::uint64_t more) const;
  std::uint64_t table_slack() const { return state_.config.tables_in_budget ? kTableSlackBytes : 0; }
  std::uint32_t frames_beside(std::uint64_t tables) const;
  std::uint32_t extents_owed() const;

  CoreState& state_;
  std::uint64_t bytes_;
  std::uint32_t extents_limit_;
  std::uint32_t extents_most_;  // that the device has room for, as far as is known
  std::uint64_t small_bytes_ = 0;
  std::uint64_t small_kept_ = 0;
  std::uint64_t cache_bytes_ = 0;
  std::uint64_t tables_applied_ = 0;
};

}  // namespace ebb
