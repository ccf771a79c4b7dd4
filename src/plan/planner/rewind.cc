// See rewind.h.
#include "plan/planner/rewind.h"

namespace ebb {

void Rewind::used(Position earlier, Position now) {
  if (now - earlier < kRecent) return;
  const bool known = cursor_ != Recording::kNever && misses_ < kMissesMax;
  if (known && earlier <= cursor_ + kJitter && earlier + kStride >= cursor_) {
    if (earlier < cursor_) worth_ = kMost;
    cursor_ = std::min(cursor_, earlier);
    ++hits_;
    misses_ = 0;
  } else if (known) {
    ++misses_;
  } else {
    cursor_ = scan_ = earlier;
    hits_ = misses_ = 0;
    worth_ = kMost;
  }
}

}  // namespace ebb
