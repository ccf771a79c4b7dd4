// GpuDevice: the port to a device with memory of its own that runs work in streams: a GPU. Its addresses are fixed, the
// frames under them change; it has no page faults, so whoever starts work on it must have mapped all that it touches.
//
// All functions return at once, or after some microseconds; none waits for the device. Addresses of the space are for
// the device: nobody reads or writes them from here. A failure that no further call survives is kIoError, and failure()
// says what happened; from then on every call fails so, and nothing is to be waited for.
//
// Threads: any, one at a time; but map(), permit() and unmap() also while another calls something else, or the same for
// other blocks. Destroying a device frees everything; its owner has waited for its streams.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "base/index.h"
#include "ebb/status.h"

namespace ebb {

class GpuDevice {
 public:
  enum class Copy : std::uint8_t { kIn, kOut, kNote };
  using Stream = void*;  // runs what it is given in order, beside others; null: the default stream
  using Event = void*;

  virtual ~GpuDevice() = default;

  // The space, in the device's addresses.
  virtual std::byte* base() const = 0;
  virtual std::size_t bytes() const = 0;
  // Host memory that the device copies from and to, there for as long as the device is.
  virtual std::span<std::byte> host() = 0;

  // Gives a frame memory, content undefined; kNoMemory. A frame that is destroyed is mapped nowhere and not in use.
  virtual Status create(FrameIndex frame) = 0;
  virtual void destroy(FrameIndex frame) = 0;
  // Puts a frame under a block that has none. It may lie under several at once. May be used after permit(). kNoMemory.
  virtual Status map(FrameIndex frame, BlockIndex block) = 0;
  virtual Status permit(BlockRange blocks) = 0;
  // Takes the frames under blocks away, all of which have one. No work that uses them is under way.
  virtual Status unmap(BlockRange blocks) = 0;

  // Each direction of copies has a stream, and so has noting what has been copied.
  virtual Stream copy_stream(Copy direction) const = 0;
  // Starts a copy between host() and the whole of a frame, in the stream of its direction.
  virtual Status copy_in(FrameIndex frame, std::span<const std::byte> from) = 0;
  virtual Status copy_out(std::span<std::byte> to, FrameIndex frame) = 0;

  // Whether the device itself can tell what a frame has changed by since it was copied. If so: note() remembers what a
  // frame holds, which is what the block `place` of host() holds from then on; copy_out_changed() does as copy_out(),
  // but copies no more than differs from that, and remembers it. Whoever has copied to a place in another way notes it
  // again.
  virtual bool tells_changes() const { return false; }
  virtual Status note(FrameIndex /*frame*/, std::uint32_t /*place*/) { return Status::kUnsupported; }
  virtual Status copy_out_changed(FrameIndex /*frame*/, std::uint32_t /*place*/) { return Status::kUnsupported; }

  virtual Status make_event(Event& event) = 0;
  // One that also knows when it was done.
  virtual Status make_timer(Event& event) = 0;
  virtual void destroy_event(Event event) = 0;
  // The event is done when all that the stream was given until now is.
  virtual Status record(Event event, Stream stream) = 0;
  // What the stream is given from now on waits for the event as it was recorded last.
  virtual Status wait(Stream stream, Event event) = 0;
  // kOk: done, kBusy: not yet.
  virtual Status query(Event event) = 0;
  // Nanoseconds between two timers that were done in this order. kBusy: not yet.
  virtual Status elapsed(Event from, Event to, std::uint64_t& ns) = 0;

  // Why the device is lost, in a sentence for people; empty while it works. Any thread.
  const std::string& failure() const {
    static const std::string kNone;
    return lost() ? failure_ : kNone;
  }
  // One line for people.
  virtual std::string description() const = 0;

 protected:
  bool lost() const { return lost_.load(std::memory_order_acquire); }
  // What is said first stands.
  void lose(std::string why) {
    const std::lock_guard lock(losing_);
    if (lost()) return;
    failure_ = std::move(why);
    lost_.store(true, std::memory_order_release);
  }

 private:
  std::mutex losing_;
  std::string failure_;  // written once, before lost_ is set
  std::atomic<bool> lost_{false};
};

}  // namespace ebb
