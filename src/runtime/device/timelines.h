// Timelines: how far the streams of a device have come. A line is a stream; a mark on it is an event, and has the next
// number of the line; Fences say, for each line, up to which mark something must have been done before a thing may be
// used. So "who used this last" is a few numbers, and waiting for it, in a stream or here, is one call.
//
// Owned by a runtime on a device, under its lock. Invariants: marks of a line complete in order; done <= marked; a
// line's numbers never go back, also when it is given to another stream.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "port/gpu_device.h"

namespace ebb {

class Fences {
 public:
  static constexpr std::uint32_t kLinesMax = 19;  // of copies three, of the program the rest

  std::uint64_t operator[](std::uint32_t line) const { return until_[line]; }
  void add(std::uint32_t line, std::uint64_t mark) {
    if (until_[line] < mark) until_[line] = mark;
  }
  void add(const Fences& other) {
    for (std::uint32_t i = 0; i < kLinesMax; ++i) add(i, other.until_[i]);
  }

 private:
  std::array<std::uint64_t, kLinesMax> until_{};
};

class Timelines {
 public:
  // Marks of a line that may be outstanding; the next one waits. It bounds how far the host runs ahead of the device.
  static constexpr std::size_t kMarksMax = 512;
  static constexpr std::uint32_t kIn = 0;  // the lines of the copy streams
  static constexpr std::uint32_t kOut = 1;
  static constexpr std::uint32_t kNote = 2;

  // kNoMemory, kIoError: the device gives no events.
  static Status make(GpuDevice& device, std::unique_ptr<Timelines>& timelines);
  ~Timelines();
  Timelines(const Timelines&) = delete;
  Timelines& operator=(const Timelines&) = delete;

  static constexpr std::uint32_t kNone = 0xffffffff;
  // The line of a stream of the program. With too many streams, that of the one that has been idle longest is taken,
  // unless it is held. kNone: all are; that does not happen to who holds none.
  std::uint32_t line_of(GpuDevice::Stream stream);
  // Keeps a line to its stream, as long as it is marked later. False: too many are held.
  bool hold(std::uint32_t line);
  void let_go(std::uint32_t line);
  GpuDevice::Stream stream_of(std::uint32_t line) const { return lines_[line].stream; }
  // A mark behind all that the line's stream has been given. Fails only where the device is lost.
  Status mark(std::uint32_t line, std::uint64_t& mark);
  // What the line's stream is given from now on waits for these.
  Status wait(std::uint32_t line, const Fences& fences);
  // Waits here. kIoError: the device is lost; kBusy: it hangs.
  Status wait_here(const Fences& fences);
  // Whether these are over; true of a lost device, on which nothing is to be waited for.
  bool done(const Fences& fences);
  // The same by what the device said last, without asking it.
  bool known_done(const Fences& fences) const;
  // Asks the device how far it is.
  void poll();
  // Everything that has been marked.
  Fences all() const;
  std::uint64_t host_waits() const { return host_waits_; }
  std::uint64_t host_wait_ns() const { return host_wait_ns_; }

 private:
  struct Mark {
    std::uint64_t number = 0;
    GpuDevice::Event event = nullptr;
  };
  struct Line {
    GpuDevice::Stream stream = nullptr;
    std::uint64_t marked = 0;
    std::uint64_t done = 0;
    std::uint64_t used = 0;  // when line_of() gave it last
    std::uint32_t held = 0;
    std::deque<Mark> outstanding;
    std::array<std::uint64_t, Fences::kLinesMax> waited{};  // marks of others that the stream waits for already
  };

  explicit Timelines(GpuDevice& device);
  void poll(Line& line);
  Status take_event(GpuDevice::Event& event);
  std::uint32_t take_line(GpuDevice::Stream stream);

  GpuDevice& device_;
  std::vector<Line> lines_;
  std::vector<GpuDevice::Event> free_;
  std::uint64_t uses_ = 0;
  std::uint64_t host_waits_ = 0;
  std::uint64_t host_wait_ns_ = 0;
};

}  // namespace ebb
