// FixedDevice: the port to a device whose memory is where it is: a piece of its own, and a piece of host memory that it
// reads and writes where that lies. Both have addresses of the device; nothing moves.
//
// Threads: any, one at a time. Destroying it frees both; its owner has waited for its streams.
#pragma once

#include <cstddef>
#include <span>

#include "port/device_streams.h"

namespace ebb {

class FixedDevice : public DeviceStreams {
 public:
  // Nobody reads or writes them from here.
  virtual std::span<std::byte> memory() = 0;
  virtual std::span<std::byte> host() = 0;  // may be empty
};

}  // namespace ebb
