// Silence: whether a program announces nothing just now: so many touches of absent memory since its last launch. Owned
// by what goes by touches alone; never allocates.
#pragma once

#include <algorithm>
#include <cstdint>

namespace ebb {

class Silence {
 public:
  void launched() { touches_ = 0; }
  void touched() { touches_ = std::min(touches_ + 1, kTouches); }
  bool lasts() const { return touches_ >= kTouches; }

 private:
  static constexpr std::uint32_t kTouches = 16;
  std::uint32_t touches_ = 0;
};

}  // namespace ebb
