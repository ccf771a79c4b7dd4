// FuzzHistory: the last operations of a fuzzer's run as text, oldest first, for whoever reads a failure. It
// does not allocate, because it is read from a signal handler.
#pragma once

#include <array>
#include <cstdarg>
#include <cstddef>
#include <cstdio>

namespace ebb {

class FuzzHistory {
 public:
  static constexpr std::size_t kKept = 30;

  void add(const char* format, ...) __attribute__((format(printf, 2, 3))) {
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(lines_[count_++ % kKept].data(), kLineMax, format, arguments);
    va_end(arguments);
  }
  void clear() { count_ = 0; }
  // Those that are kept, with their numbers, oldest first.
  template <typename F>
  void for_each(F&& visit) const {
    for (std::size_t i = count_ > kKept ? count_ - kKept : 0; i < count_; ++i) visit(i, lines_[i % kKept].data());
  }

 private:
  static constexpr std::size_t kLineMax = 160;
  std::array<std::array<char, kLineMax>, kKept> lines_{};
  std::size_t count_ = 0;
};

}  // namespace ebb
