// See trace_chrome.h. Written event by event: a trace may have millions.
#include "trace/trace_chrome.h"

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "chrome_event.h"
#include "json_text.h"

namespace ebb::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kIterations = 1;
constexpr int kLaunches = 2;
constexpr std::uint64_t kUnknownNs = 1000;

class Events {
 public:
  void add(const Json& event) {
    text_ += text_.empty() ? "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n" : ",\n";
    text_ += json_line(event);
  }
  void slice(const std::string& name, int thread, std::uint64_t begin_ns, std::uint64_t ns, Json args) {
    Json event = chrome_slice(name, thread, microseconds(begin_ns), microseconds(ns));
    event["args"] = std::move(args);
    add(event);
  }
  std::string finish() { return std::move(text_) + "\n]}\n"; }

 private:
  std::string text_;
};

// Bytes that are alive, by kind, as launches come and go.
class Living {
 public:
  explicit Living(const Trace& trace) : trace_(trace), born_(trace.launches.size() + 1), dead_(born_.size()) {
    std::vector<std::uint32_t> first(trace.tensors.size(), Trace::kNone);
    std::vector<std::uint32_t> last(trace.tensors.size(), 0);
    for (std::uint32_t i = 0; i < trace.launches.size(); ++i) {
      for (const Trace::TensorIndex tensor : trace.touched(trace.launches[i])) {
        if (first[tensor] == Trace::kNone) first[tensor] = i;
        last[tensor] = i + 1;
      }
    }
    for (std::uint32_t t = 0; t < trace.tensors.size(); ++t) {
      const Trace::Tensor& tensor = trace.tensors[t];
      std::uint32_t begin = tensor.allocated_before != Trace::kNone ? tensor.allocated_before : first[t];
      if (tensor.persistent) begin = 0;
      if (begin == Trace::kNone) continue;  // nothing ever uses it
      born_[begin].push_back(t);
      if (!tensor.persistent) {
        dead_[tensor.freed_before != Trace::kNone ? tensor.freed_before : last[t]].push_back(t);
      }
    }
  }

  // What dies and what is born before this launch; whether that changes anything.
  bool come_to(std::size_t launch) {
    for (const std::uint32_t t : dead_[launch]) bytes_of(t) -= trace_.tensors[t].bytes;
    for (const std::uint32_t t : born_[launch]) bytes_of(t) += trace_.tensors[t].bytes;
    return !dead_[launch].empty() || !born_[launch].empty();
  }

  Json by_kind() const {
    Json json;
    for (std::size_t k = 0; k < kTraceKinds; ++k) json[name(static_cast<Trace::Kind>(k))] = bytes_[k];
    return json;
  }

 private:
  std::uint64_t& bytes_of(std::uint32_t tensor) {
    return bytes_[static_cast<std::size_t>(trace_.tensors[tensor].kind)];
  }

  const Trace& trace_;
  std::vector<std::vector<std::uint32_t>> born_;
  std::vector<std::vector<std::uint32_t>> dead_;
  std::array<std::uint64_t, kTraceKinds> bytes_{};
};

std::uint64_t bytes_of(const Trace& trace, std::span<const Trace::TensorIndex> tensors) {
  std::uint64_t sum = 0;
  for (const Trace::TensorIndex tensor : tensors) sum += trace.tensors[tensor].bytes;
  return sum;
}

}  // namespace

std::string chrome_events(const Trace& trace) {
  Events events;
  events.add(chrome_name("process_name", 0, trace.model.empty() ? "ebb trace" : trace.model));
  events.add(chrome_name("thread_name", kIterations, "iterations"));
  events.add(chrome_name("thread_name", kLaunches, "launches"));
  Living living(trace);
  std::uint64_t at = 0;
  std::uint64_t iteration_begin = 0;
  std::size_t iteration = 0;
  for (std::size_t i = 0; i <= trace.launches.size(); ++i) {
    if (living.come_to(i)) {
      events.add(chrome_counter("alive, bytes of", microseconds(at), living.by_kind()));
    }
    while (iteration < trace.steps.size() && trace.steps[iteration] == i) {
      ++iteration;
      events.slice("iteration " + std::to_string(iteration), kIterations, iteration_begin, at - iteration_begin,
                   Json::object());
      iteration_begin = at;
    }
    if (i == trace.launches.size()) break;
    const Trace::Launch& launch = trace.launches[i];
    const bool known = launch.ns != Trace::kUnknown;
    Json args{{"launch", i},
              {"read_bytes", bytes_of(trace, trace.reads(launch))},
              {"written_bytes", bytes_of(trace, trace.writes(launch))}};
    if (!known) args["duration"] = "unknown";
    events.slice(trace.ops[launch.op], kLaunches, at, known ? launch.ns : kUnknownNs, std::move(args));
    at += known ? launch.ns : kUnknownNs;
  }
  return events.finish();
}

}  // namespace ebb::cli
