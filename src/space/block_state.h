// The states of a block and the transitions between them: one enum, one function.
//
//            attach                detach                 written
//  untouched ------> resident ------------> evicting ---------------> on_flash
//      ^   ^            ^ ^                    | rescued / failed         |  |
//      |   | discarded  | +--------------------+                          |  | unreadable
//      |   +------------+------------- fetching <-------------------------+  v
//      |                   arrived        |            fetch               lost
//      +----------------------------------+---- freed (from any state) -------+
//
// An untouched block may also become on flash: the program maps a file, and there the content is.
// A block that is held back is ready when it has arrived, or when it is detached; a touch makes it resident. At a fork
// all that is in memory becomes evicting, and comes back when it has been written for the child (frozen).
//
// Who may touch the frame: resident - the program, at the block's address; evicting - the flash queue reads it at
// home; fetching - the flash queue writes it at home; ready - nobody; in the other states there is no frame.
#pragma once

#include <cstdint>

namespace ebb {

enum class BlockState : std::uint8_t {
  kUntouched,  // no frame, no content: the next touch attaches a frame of undefined bytes
  kResident,
  kEvicting,
  kOnFlash,
  kFetching,
  kReady,  // in memory, at home: the next touch attaches it, and thereby tells how far the program has come
  kLost,   // its bytes are gone; every touch fails loudly
};
inline constexpr int kBlockStates = 7;

constexpr const char* name(BlockState state) {
  switch (state) {
    case BlockState::kUntouched: return "untouched";
    case BlockState::kResident: return "resident";
    case BlockState::kEvicting: return "evicting";
    case BlockState::kOnFlash: return "on flash";
    case BlockState::kFetching: return "fetching";
    case BlockState::kReady: return "ready";
    case BlockState::kLost: return "lost";
  }
  return "unknown";
}

constexpr bool has_frame(BlockState state) {
  return state == BlockState::kResident || state == BlockState::kEvicting || state == BlockState::kFetching ||
         state == BlockState::kReady;
}

// Whether a block may go from one state to another. Any state may become untouched, when its content is freed.
constexpr bool may_become(BlockState from, BlockState to) {
  using enum BlockState;
  if (to == kUntouched) return from != kUntouched;
  switch (from) {
    case kUntouched: return to == kResident || to == kOnFlash;
    case kResident: return to == kEvicting || to == kReady;
    case kEvicting: return to == kResident || to == kOnFlash;
    case kOnFlash: return to == kFetching || to == kLost;
    case kFetching: return to == kResident || to == kOnFlash || to == kLost || to == kReady;
    case kReady: return to == kResident || to == kEvicting;
    case kLost: return false;
  }
  return false;
}

}  // namespace ebb
