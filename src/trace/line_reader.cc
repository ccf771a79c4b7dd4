// See line_reader.h.
#include "trace/line_reader.h"

#include "plan/trace.h"

namespace ebb {

void LineReader::fail_at(std::size_t number, const std::string& what) const {
  throw Error(Status::kInvalid, source_.name() + ":" + std::to_string(number) + ": " + what);
}

void LineReader::fail(const std::string& what) const { fail_at(number_, what); }

void LineReader::check_limits(std::size_t length) const {
  if (length > kLineBytesMax) {
    fail("the line is longer than " + std::to_string(kLineBytesMax) + " bytes; a trace has one JSON object a line");
  }
  if (bytes_ + length > kTextBytesMax) {
    fail("the trace is longer than " + std::to_string(kTextBytesMax) + " bytes; record fewer iterations");
  }
}

bool LineReader::next(std::string_view& line) {
  held_.clear();
  ++number_;
  while (true) {
    if (chunk_.empty()) chunk_ = source_.next();
    if (chunk_.empty()) {
      if (held_.empty()) return false;
      closed_ = false;
      line = held_;
      break;
    }
    const std::size_t end = chunk_.find('\n');
    const std::string_view piece = chunk_.substr(0, end);
    check_limits(held_.size() + piece.size());
    if (end == std::string_view::npos) {
      held_.append(piece);
      chunk_ = {};
      continue;
    }
    chunk_.remove_prefix(end + 1);
    line = held_.empty() ? piece : held_.append(piece);
    break;
  }
  if (number_ > Trace::kLinesMax) {
    fail("more than " + std::to_string(Trace::kLinesMax) + " lines; record fewer iterations");
  }
  bytes_ += line.size() + 1;
  return true;
}

}  // namespace ebb
