// GpuDevice: the port to a device with memory of its own that runs work in streams: a GPU. Its addresses are fixed, the
// frames under them change; it has no page faults, so whoever starts work on it must have mapped all that it touches.
//
// All functions return at once, or after some microseconds; none waits for the device. Addresses of the space are for
// the device: nobody reads or writes them from here.
//
// Threads: any, one at a time. Destroying a device frees everything; its owner has waited for its streams.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/index.h"
#include "port/device_streams.h"

namespace ebb {

class GpuDevice : public DeviceStreams {
 public:
  enum class Copy : std::uint8_t { kIn, kOut };

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

  // Each direction of copies has a stream.
  virtual Stream copy_stream(Copy direction) const = 0;
  // Starts a copy between host() and the whole of a frame, in the stream of its direction.
  virtual Status copy_in(FrameIndex frame, std::span<const std::byte> from) = 0;
  virtual Status copy_out(std::span<std::byte> to, FrameIndex frame) = 0;
};

}  // namespace ebb
