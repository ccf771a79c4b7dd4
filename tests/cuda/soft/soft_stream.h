// SoftStream and SoftEvent: work that runs in order in a thread of its own, and marks in it.
//
// Threads: give() by callers, run() by the stream's own. The lock of a stream is a leaf: nothing else is taken under it
// but an event's, which is a leaf too.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "soft_races.h"

namespace ebb::soft {

// Recordings of an event are numbered; it is done up to one of them.
class SoftEvent {
 public:
  std::uint64_t record() {
    const std::lock_guard lock(mutex_);
    return ++recorded_;
  }
  std::uint64_t recorded() const {
    const std::lock_guard lock(mutex_);
    return recorded_;
  }
  void reach(std::uint64_t number);
  bool done() const {
    const std::lock_guard lock(mutex_);
    return done_ >= recorded_;
  }
  void wait(std::uint64_t number);
  // When it was done last.
  std::chrono::steady_clock::time_point done_at() const {
    const std::lock_guard lock(mutex_);
    return done_at_;
  }

  Clock clock;  // of the last recording; under the World's lock

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t recorded_ = 0;
  std::uint64_t done_ = 0;
  std::chrono::steady_clock::time_point done_at_;
};

class SoftStream {
 public:
  explicit SoftStream(std::uint32_t number);
  ~SoftStream();  // runs what it was given, and ends
  SoftStream(const SoftStream&) = delete;
  SoftStream& operator=(const SoftStream&) = delete;

  void give(std::function<void()> work);
  // Until everything given so far has run.
  void drain();
  std::uint32_t number() const { return number_; }

  Clock clock;  // what its next work comes after; under the World's lock, as the next
  std::uint32_t given = 0;

 private:
  void run();

  const std::uint32_t number_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  bool busy_ = false;
  bool ending_ = false;
  std::thread thread_;
};

// Runs `body`; false if it touched an address of [begin, end) that is not accessible.
bool run_guarded(const std::function<void()>& body, const std::byte* begin, const std::byte* end);

}  // namespace ebb::soft
