// DeviceStreams: what every port to a device has: streams, which run what they are given in order, beside each other,
// and events, which order them.
//
// No function waits for the device. A failure that no further call survives is kIoError, and failure() says what
// happened; from then on every call fails so, and nothing is to be waited for. Threads: any, one at a time.
#pragma once

#include <string>

#include "ebb/status.h"

namespace ebb {

class DeviceStreams {
 public:
  using Stream = void*;  // null: the default stream
  using Event = void*;

  virtual ~DeviceStreams() = default;

  virtual Status make_event(Event& event) = 0;
  virtual void destroy_event(Event event) = 0;
  // The event is done when all that the stream was given until now is.
  virtual Status record(Event event, Stream stream) = 0;
  // What the stream is given from now on waits for the event as it was recorded last.
  virtual Status wait(Stream stream, Event event) = 0;
  // kOk: done, kBusy: not yet.
  virtual Status query(Event event) = 0;

  // Why the device is lost, in a sentence for people; empty while it works.
  virtual const std::string& failure() const = 0;
  // One line for people.
  virtual std::string description() const = 0;
};

}  // namespace ebb
