// write_trace, and the TraceWriter under it: an `ebb-trace` file (docs/trace.md), whole from a Trace or line by line as
// a recorder of a running program comes to know it.
//
// One thread. The file is there under its name only after finish() (byte_sink.h). A TraceWriter numbers the launches
// and holds the limits; whether what it is told makes sense is found out by read_trace(), which refuses what does not.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "plan/trace.h"
#include "trace/byte_sink.h"

namespace ebb {

// What read_trace() gives back equals `trace`, which must keep check(), up to the numbers of operators if those do not
// stand in the order in which they are first launched.
void write_trace(const Trace& trace, const std::string& path);

class TraceWriter {
 public:
  struct Header {
    std::string model, source, device;
    std::uint64_t batch = 0;
    Trace::Origin origin = {};
    bool sequence = false;
  };
  TraceWriter(const std::string& path, const Header& header);

  void tensor(std::uint32_t id, std::uint64_t bytes, Trace::Kind kind, bool persistent, bool mapped = false,
              bool continues = false);
  void launch(std::string_view op, std::span<const std::uint32_t> reads, std::span<const std::uint32_t> writes,
              std::uint64_t ns = Trace::kUnknown, bool sync = false);
  void alloc(std::uint32_t id);
  void free(std::uint32_t id);
  void mark_step();  // an iteration ends here
  void finish();

 private:
  void number(std::string_view key, std::uint64_t value);
  void string(std::string_view key, std::string_view value);
  void list(std::string_view key, std::span<const std::uint32_t> ids);
  void end_line();
  void refuse(const std::string& what) const;

  std::string path_;
  std::unique_ptr<ByteSink> sink_;
  std::string text_;            // lines that the sink has not been given yet
  std::size_t line_begin_ = 0;  // in text_: of the line being made
  std::uint64_t launches_ = 0;
  std::uint64_t lines_ = 0;
};

}  // namespace ebb
