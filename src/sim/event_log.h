// EventLog: a rolling hash of everything that crosses a port of the simulated world. Two runs of one seed must agree on
// it; if they do not, something in the core depends on more than its inputs.
#pragma once

#include <cstdint>

namespace ebb {

class EventLog {
 public:
  enum class Kind : std::uint8_t {
    kCreate = 1,
    kDestroy,
    kAttach,
    kDetach,
    kWake,
    kFail,
    kSubmit,
    kComplete,
    kReserve,
    kReadNow,
    kProgram,  // what the simulated program did, in its own words
  };

  template <typename... Values>
  void note(Kind kind, Values... values) {
    mix(static_cast<std::uint64_t>(kind));
    (mix(static_cast<std::uint64_t>(values)), ...);
    ++count_;
  }

  std::uint64_t hash() const { return hash_; }
  std::uint64_t count() const { return count_; }

 private:
  void mix(std::uint64_t value) {
    hash_ = (hash_ ^ value) * 0x9e3779b97f4a7c15ull;
    hash_ ^= hash_ >> 32;
  }

  std::uint64_t hash_ = 0x243f6a8885a308d3ull;  // digits of pi: anything but zero
  std::uint64_t count_ = 0;
};

}  // namespace ebb
