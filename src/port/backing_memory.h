// BackingMemory: the port to physical memory. Frames have a home address, where only Ebbtide looks at them, and can be
// attached under a block of the space, where the program does. A frame is in one of the two places, never in both.
//
// Called under the runtime's lock, synchronously, some microseconds each; create(), which takes milliseconds, also
// without it, for one frame by one thread while another thread does anything else here. Implementations keep no policy:
// which frame, which block and when is the caller's business. They must not allocate in attach, detach, wake and fail,
// because the fault thread calls them while another thread may hold malloc's lock.
#pragma once

#include <cstddef>
#include <span>

#include "base/index.h"
#include "ebb/status.h"

namespace ebb {

class BackingMemory {
 public:
  virtual ~BackingMemory() = default;

  // Gives frame `frame` physical memory, at home, content undefined. kNoMemory: the system has none.
  virtual Status create(FrameIndex frame) = 0;
  // Returns the memory of a frame that is at home to the system.
  virtual void destroy(FrameIndex frame) = 0;
  // Moves a frame from home under an absent block, writable, and wakes whoever waits for the block. Atomic: a thread
  // sees the block absent or whole.
  virtual void attach(FrameIndex frame, BlockIndex block) = 0;
  // Takes the frame under a block home. Atomic; a touch afterwards faults. kBusy: its pages are pinned, leave it.
  virtual Status detach(BlockIndex block, FrameIndex frame) = 0;
  // Lets those who wait for a block try again.
  virtual void wake(BlockIndex block) = 0;
  // Makes every touch of an absent block fail (SIGBUS) until it is attached again: its content is lost.
  virtual void fail(BlockIndex block) = 0;
  // Ends that without a frame: the content was freed, a touch waits again.
  virtual void forget_failure(BlockIndex block) = 0;
  // The bytes of a frame that is at home.
  virtual std::span<std::byte> home(FrameIndex frame) = 0;
};

}  // namespace ebb
