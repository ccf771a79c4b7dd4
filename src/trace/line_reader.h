// LineReader: a source cut into lines, with limits that hold whatever a file inflates to.
//
// Owned by one reader; one thread. Holds one line and one chunk of the source at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ebb/status.h"
#include "trace/byte_source.h"

namespace ebb {

class LineReader {
 public:
  static constexpr std::size_t kLineBytesMax = std::size_t{1} << 22;  // a launch of 400 000 tensors
  static constexpr std::uint64_t kTextBytesMax = std::uint64_t{1} << 33;

  explicit LineReader(PeekableSource& source) : source_(source) {}

  // The next line without its end, valid until the next call; false at the end of the source.
  bool next(std::string_view& line);
  std::size_t number() const { return number_; }          // of the line that next() gave last; the first is 1
  bool ended_early() const { return !closed_; }           // that line was the last and had no line end
  [[noreturn]] void fail(const std::string& what) const;  // throws "FILE:LINE: what"
  [[noreturn]] void fail_at(std::size_t number, const std::string& what) const;

 private:
  void check_limits(std::size_t length) const;

  PeekableSource& source_;
  std::string_view chunk_;
  std::string held_;  // a line that began in an earlier chunk
  std::size_t number_ = 0;
  std::uint64_t bytes_ = 0;
  bool closed_ = true;
};

}  // namespace ebb
