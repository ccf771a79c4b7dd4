// See writer.h.
#include "trace/writer.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <vector>

#include "ebb/status.h"
#include "trace/json_line.h"
#include "trace/line_reader.h"

namespace ebb {
namespace {

constexpr std::size_t kTextBytes = std::size_t{1} << 16;

void append_number(std::string& text, std::uint64_t value) {
  char digits[20];
  text.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
}

// Names from a running program may be anything: what is no UTF-8 is replaced rather than refused.
void append_string(std::string& text, std::string_view value) {
  const bool plain =
      std::all_of(value.begin(), value.end(), [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; });
  if (plain) {
    text += '"';
    text += value;
    text += '"';
  } else {
    text += nlohmann::json(std::string(value)).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
}

// The lines that stand before each launch, and after the last: of a trace, in the order of the launches.
class Between {
 public:
  explicit Between(const Trace& trace) : trace_(trace) {
    for (std::uint32_t i = 0; i < trace.tensors.size(); ++i) {
      const Trace::Tensor& tensor = trace.tensors[i];
      if (tensor.allocated_before != Trace::kNone) allocs_.push_back({tensor.allocated_before, i});
      if (tensor.freed_before != Trace::kNone) frees_.push_back({tensor.freed_before, i});
    }
    std::sort(allocs_.begin(), allocs_.end());
    std::sort(frees_.begin(), frees_.end());
  }

  // What ends comes before what begins, except for tensors that are allocated and freed without a launch in between.
  void write(TraceWriter& writer, std::uint32_t launch) {
    const std::size_t first_free = free_;
    for (; free_ < frees_.size() && frees_[free_].launch == launch; ++free_) {
      if (tensor(frees_[free_]).allocated_before != launch) writer.free(tensor(frees_[free_]).id);
    }
    for (; step_ < trace_.steps.size() && trace_.steps[step_] == launch; ++step_) writer.mark_step();
    for (; alloc_ < allocs_.size() && allocs_[alloc_].launch == launch; ++alloc_)
      writer.alloc(tensor(allocs_[alloc_]).id);
    for (std::size_t i = first_free; i < free_; ++i) {
      if (tensor(frees_[i]).allocated_before == launch) writer.free(tensor(frees_[i]).id);
    }
  }

 private:
  struct Event {
    std::uint32_t launch;
    std::uint32_t tensor;
    auto operator<=>(const Event&) const = default;
  };
  const Trace::Tensor& tensor(const Event& event) const { return trace_.tensors[event.tensor]; }

  const Trace& trace_;
  std::vector<Event> allocs_, frees_;
  std::size_t alloc_ = 0, free_ = 0, step_ = 0;
};

}  // namespace

TraceWriter::TraceWriter(const std::string& path, const Header& header) : path_(path), sink_(open_sink(path)) {
  text_ = "{\"format\":\"ebb-trace\",\"version\":1";
  if (!header.model.empty()) string("model", header.model);
  if (header.batch > Trace::kHeaderMax) refuse("a batch above 2^56");
  if (header.batch != 0) number("batch", header.batch);
  if (!header.device.empty()) string("device", header.device);
  if (!header.source.empty()) string("source", header.source);
  for (const OriginKey& each : kOriginKeys) {
    const std::uint64_t value = header.origin.*each.value;
    if (value == Trace::kUnknown) continue;
    if (value > Trace::kHeaderMax) refuse("a machine of more than 2^56 bytes, or bytes a second,");
    number(JsonLine::text(each.key), value);
  }
  if (header.sequence) text_ += ",\"sequence\":true";
  end_line();
}

void TraceWriter::refuse(const std::string& what) const {
  throw Error(Status::kInvalid, path_ + ": " + what + " cannot be written to a trace");
}

void TraceWriter::number(std::string_view key, std::uint64_t value) {
  text_.append(",\"").append(key).append("\":");
  append_number(text_, value);
}

void TraceWriter::string(std::string_view key, std::string_view value) {
  text_.append(",\"").append(key).append("\":");
  append_string(text_, value);
}

void TraceWriter::list(std::string_view key, std::span<const std::uint32_t> ids) {
  text_.append(",\"").append(key).append("\":[");
  for (const std::uint32_t id : ids) {
    append_number(text_, id);
    text_ += ',';
  }
  if (!ids.empty()) text_.pop_back();
  text_ += ']';
}

void TraceWriter::end_line() {
  text_ += "}\n";
  if (text_.size() - line_begin_ > LineReader::kLineBytesMax) refuse("a line of more than 4 MiB");
  line_begin_ = text_.size();
  if (++lines_ > Trace::kLinesMax) refuse("more than " + std::to_string(Trace::kLinesMax) + " lines");
  if (text_.size() < kTextBytes) return;
  sink_->write(text_);
  text_.clear();
  line_begin_ = 0;
}

void TraceWriter::tensor(std::uint32_t id, std::uint64_t bytes, Trace::Kind kind, bool persistent, bool mapped,
                         bool continues) {
  if (bytes > Trace::kBytesMax) refuse("a tensor of more than 2^56 bytes");
  text_ += "{\"tensor\":";
  append_number(text_, id);
  number("bytes", bytes);
  string("kind", name(kind));
  text_ += persistent ? ",\"persistent\":true" : ",\"persistent\":false";
  if (mapped) text_ += ",\"mapped\":true";
  if (continues) text_ += ",\"continues\":true";
  end_line();
}

void TraceWriter::launch(std::string_view op, std::span<const std::uint32_t> reads,
                         std::span<const std::uint32_t> writes, std::uint64_t ns, bool sync) {
  if (ns != Trace::kUnknown && ns > Trace::kNsMax) refuse("a launch of more than 2^56 ns");
  text_ += "{\"launch\":";
  append_number(text_, launches_++);
  string("op", op);
  if (ns != Trace::kUnknown) number("ns", ns);
  if (sync) text_ += ",\"sync\":true";
  list("reads", reads);
  list("writes", writes);
  end_line();
}

void TraceWriter::alloc(std::uint32_t id) {
  text_ += "{\"alloc\":";
  append_number(text_, id);
  end_line();
}

void TraceWriter::free(std::uint32_t id) {
  text_ += "{\"free\":";
  append_number(text_, id);
  end_line();
}

void TraceWriter::mark_step() {
  text_ += "{\"mark\":\"step\"";
  end_line();
}

void TraceWriter::finish() {
  sink_->write(text_);
  text_.clear();
  sink_->finish();
}

void write_trace(const Trace& trace, const std::string& path) {
  if (const std::string wrong = check(trace); !wrong.empty()) {
    throw Error(Status::kInvalid, path + ": the trace cannot be written: " + wrong);
  }
  TraceWriter writer(path, {trace.model, trace.source, trace.device, trace.batch, trace.origin, trace.sequence});
  for (const Trace::Tensor& tensor : trace.tensors) {
    writer.tensor(tensor.id, tensor.bytes, tensor.kind, tensor.persistent, tensor.mapped, tensor.continues);
  }
  Between between(trace);
  std::vector<std::uint32_t> ids;
  for (std::uint32_t i = 0; i < trace.launches.size(); ++i) {
    const Trace::Launch& launch = trace.launches[i];
    between.write(writer, i);
    ids.clear();
    for (const Trace::TensorIndex use : trace.touched(launch)) ids.push_back(trace.tensors[use].id);
    const std::span<const std::uint32_t> all(ids);
    writer.launch(trace.ops[launch.op], all.first(launch.reads), all.subspan(launch.reads), launch.ns, launch.sync);
  }
  between.write(writer, static_cast<std::uint32_t>(trace.launches.size()));
  writer.finish();
}

}  // namespace ebb
