// See reader.h.
#include "trace/reader.h"

#include <array>
#include <map>
#include <utility>

#include "trace/json_line.h"
#include "trace/line_reader.h"

namespace ebb {
namespace {

using Key = JsonLine::Key;
using Type = JsonLine::Type;

constexpr std::uint64_t kVersion = 1;
constexpr std::array kRecords{Key::kFormat, Key::kTensor, Key::kLaunch, Key::kAlloc, Key::kFree, Key::kMark};

std::string quoted(Key key) { return std::string("\"") + JsonLine::text(key) + "\""; }

// Index of a tensor by its id. Ids mostly count up from 0, so nearly all are found in a vector.
class Ids {
 public:
  std::uint32_t find(std::uint64_t id) const {
    if (id < dense_.size() && dense_[id] != Trace::kNone) return dense_[id];
    if (sparse_.empty()) return Trace::kNone;
    const auto found = sparse_.find(id);
    return found == sparse_.end() ? Trace::kNone : found->second;
  }
  void add(std::uint64_t id, std::uint32_t index) {
    constexpr std::uint64_t kSlack = 1024;
    if (id >= dense_.size() && id <= 2 * std::uint64_t{index} + kSlack) dense_.resize(id + id / 2 + 1, Trace::kNone);
    if (id < dense_.size()) {
      dense_[id] = index;
    } else {
      sparse_.emplace(id, index);
    }
  }

 private:
  std::vector<std::uint32_t> dense_;
  std::map<std::uint64_t, std::uint32_t> sparse_;
};

class Reader {
 public:
  explicit Reader(PeekableSource& source) : lines_(source) {}

  Trace run() {
    read_header();
    std::string_view line;
    while (lines_.next(line)) {
      if (parse(line)) read_line();
    }
    check_pieces();
    const bool all_in_iterations = (trace_.steps.empty() ? 0 : trace_.steps.back()) == trace_.launches.size();
    if (trace_.sequence && !all_in_iterations) {
      fail("a \"sequence\" ends in the middle of an iteration; put {\"mark\":\"step\"} behind its last launch");
    }
    return std::move(trace_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { lines_.fail(what); }

  // False for a blank line.
  bool parse(std::string_view line) {
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) return false;
    const std::string problem = json_.parse(line);
    if (problem.empty()) return true;
    fail(lines_.ended_early() ? problem + "; the last line has no end, so the file may be cut off" : problem);
  }

  std::uint64_t whole(Key key, std::uint64_t max, const char* max_text) const {
    const JsonLine::Value& value = json_.at(key);
    if (value.type == Type::kWhole && value.number <= max) return value.number;
    const std::string shown =
        value.type == Type::kWhole ? std::to_string(value.number) : describe(value.type, value.text);
    fail(quoted(key) + " must be a whole number from 0 to " + max_text + ", not " + shown);
  }
  std::uint64_t id(Key key) const { return whole(key, Trace::kIdMax, "2^32-1"); }
  const std::string& text(Key key) const {
    const JsonLine::Value& value = json_.at(key);
    if (value.type != Type::kString) {
      fail(quoted(key) + " must be a string, not " +
           (value.type == Type::kWhole ? std::to_string(value.number) : describe(value.type, value.text)));
    }
    return value.text;
  }

  void read_header() {
    constexpr const char* kRemedy =
        "; the first line of a trace is {\"format\":\"ebb-trace\",\"version\":1}, and may say more";
    std::string_view line;
    if (!lines_.next(line)) lines_.fail_at(1, std::string("the file is empty") + kRemedy);
    if (!parse(line)) fail(std::string("the first line is blank") + kRemedy);
    if (!json_.has(Key::kFormat)) fail(std::string("this is no ebb-trace") + kRemedy);
    if (text(Key::kFormat) != "ebb-trace") {
      fail("the format is " + describe(Type::kString, text(Key::kFormat)) +
           " and not \"ebb-trace\"; convert it first: ebb trace FILE --to OUT.jsonl");
    }
    if (!json_.has(Key::kVersion)) fail(std::string("no \"version\"") + kRemedy);
    const std::uint64_t version = whole(Key::kVersion, Trace::kHeaderMax, "2^56");
    if (version != kVersion) {
      fail("this is version " + std::to_string(version) +
           " of the format, and only version 1 is known; update ebb, or write version 1");
    }
    for (const Key record : kRecords) {
      if (record != Key::kFormat && json_.has(record))
        fail("the header has a " + quoted(record) + "; put it on a line of its own");
    }
    if (json_.has(Key::kModel)) trace_.model = text(Key::kModel);
    if (json_.has(Key::kSource)) trace_.source = text(Key::kSource);
    if (json_.has(Key::kDevice)) trace_.device = text(Key::kDevice);
    if (json_.has(Key::kBatch)) trace_.batch = whole(Key::kBatch, Trace::kHeaderMax, "2^56");
    trace_.sequence = flag(Key::kSequence);
    for (const OriginKey& each : kOriginKeys) {
      if (json_.has(each.key)) trace_.origin.*each.value = whole(each.key, Trace::kHeaderMax, "2^56");
    }
  }

  void read_line() {
    Key record = Key::kNone;
    for (const Key candidate : kRecords) {
      if (!json_.has(candidate)) continue;
      if (record != Key::kNone)
        fail("the line has both " + quoted(record) + " and " + quoted(candidate) + "; write two lines");
      record = candidate;
    }
    switch (record) {
      case Key::kFormat: fail("a second header; a file holds one trace");
      case Key::kTensor: return read_tensor();
      case Key::kLaunch: return read_launch();
      case Key::kAlloc: return read_alloc();
      case Key::kFree: return read_free();
      case Key::kMark: return read_mark();
      default: break;
    }
    if (json_.any()) fail("the line is not about a \"tensor\", \"launch\", \"alloc\", \"free\" or \"mark\"; name one");
  }

  void read_tensor() {
    Trace::Tensor tensor;
    tensor.id = static_cast<std::uint32_t>(id(Key::kTensor));
    const std::string named = "tensor " + std::to_string(tensor.id);
    if (ids_.find(tensor.id) != Trace::kNone) fail(named + " is declared twice; give every tensor an id of its own");
    if (!json_.has(Key::kBytes)) fail(named + " has no \"bytes\"; say how large it is");
    tensor.bytes = whole(Key::kBytes, Trace::kBytesMax, "2^56");
    if (tensor.bytes > Trace::kTotalMax - bytes_) fail("the tensors up to here have more than 2^62 bytes together");
    bytes_ += tensor.bytes;
    if (json_.has(Key::kKind)) tensor.kind = kind(text(Key::kKind));
    tensor.persistent = flag(Key::kPersistent);
    tensor.mapped = flag(Key::kMapped);
    if (tensor.mapped && !tensor.persistent) fail(named + " is \"mapped\" and not \"persistent\"; it must be both");
    tensor.continues = flag(Key::kContinues);
    ids_.add(tensor.id, static_cast<std::uint32_t>(trace_.tensors.size()));
    trace_.tensors.push_back(tensor);
    used_.push_back(false);
  }

  // What is known of a piece at the end only.
  void check_pieces() const {
    for (std::size_t i = 0; i < trace_.tensors.size(); ++i) {
      const Trace::Tensor& tensor = trace_.tensors[i];
      if (!tensor.continues || (i > 0 && tensor.lives_as(trace_.tensors[i - 1]))) continue;
      fail("tensor " + std::to_string(tensor.id) +
           " \"continues\" the one before it, so it must be there as long: \"persistent\" and \"mapped\" as that is, "
           "and \"alloc\" and \"free\" lines beside its");
    }
  }

  bool flag(Key key) const {
    if (!json_.has(key)) return false;
    const JsonLine::Value& value = json_.at(key);
    if (value.type != Type::kBoolean) fail(quoted(key) + " must be true or false");
    return value.number != 0;
  }

  Trace::Kind kind(const std::string& given) const {
    std::string known;
    for (std::uint8_t k = 0; k < kTraceKinds; ++k) {
      const auto candidate = static_cast<Trace::Kind>(k);
      if (given == name(candidate)) return candidate;
      known += std::string(k == 0 ? "" : ", ") + name(candidate);
    }
    fail("\"kind\" is " + describe(Type::kString, given) + "; it must be one of " + known);
  }

  std::uint32_t op(const std::string& given) {
    const auto index = static_cast<std::uint32_t>(trace_.ops.size());
    const auto [found, is_new] = ops_.try_emplace(given, index);
    if (is_new) trace_.ops.push_back(given);
    return found->second;
  }

  void read_launch() {
    const std::size_t expected = trace_.launches.size();
    const std::uint64_t given = whole(Key::kLaunch, Trace::kIdMax, "2^32-1");
    if (given != expected) {
      fail("launch " + std::to_string(given) + " stands where launch " + std::to_string(expected) +
           " is expected; launches are numbered from 0 in program order");
    }
    if (!json_.has(Key::kOp)) fail("launch " + std::to_string(given) + " has no \"op\"; name its operator");
    Trace::Launch launch;
    launch.op = op(text(Key::kOp));
    launch.first_use = static_cast<std::uint32_t>(trace_.uses.size());
    if (json_.has(Key::kNs)) {
      launch.ns = whole(Key::kNs, Trace::kNsMax, "2^56");
      if (launch.ns > Trace::kTotalMax - ns_) fail("the launches up to here take more than 2^62 ns together");
      ns_ += launch.ns;
    }
    launch.sync = flag(Key::kSync);
    launch.reads = read_uses(Key::kReads);
    launch.writes = read_uses(Key::kWrites);
    trace_.launches.push_back(launch);
  }

  std::uint32_t read_uses(Key key) {
    if (!json_.has(key)) return 0;
    const JsonLine::Value& list = json_.at(key);
    if (list.type != Type::kArray) fail(quoted(key) + " must be a list of tensor ids");
    if (list.stranger != Type::kAbsent) {
      fail(quoted(key) + " must hold whole numbers from 0 to 2^32-1, not " +
           describe(list.stranger, list.stranger_text));
    }
    if (list.numbers.size() > Trace::kUsesMax - trace_.uses.size()) {
      fail("more than 2^28 uses of tensors; record fewer iterations");
    }
    for (const std::uint64_t number : list.numbers) {
      if (number > Trace::kIdMax)
        fail(quoted(key) + " must hold whole numbers from 0 to 2^32-1, not " + std::to_string(number));
      const std::uint32_t index = declared(number);
      if (trace_.tensors[index].freed_before != Trace::kNone) {
        fail("tensor " + std::to_string(number) +
             " is used after it was freed; give what is allocated anew an id of its own");
      }
      trace_.uses.push_back(index);
      used_[index] = true;
    }
    return static_cast<std::uint32_t>(list.numbers.size());
  }

  std::uint32_t declared(std::uint64_t number) const {
    const std::uint32_t index = ids_.find(number);
    if (index == Trace::kNone) {
      fail("tensor " + std::to_string(number) + " is not declared; put {\"tensor\":" + std::to_string(number) +
           ",\"bytes\":…} on a line before this one");
    }
    return index;
  }

  // The tensor that an `alloc` or `free` line names.
  std::pair<Trace::Tensor&, bool> subject(Key key) {
    const std::uint64_t number = id(key);
    const std::uint32_t index = declared(number);
    Trace::Tensor& tensor = trace_.tensors[index];
    if (tensor.persistent) {
      fail("tensor " + std::to_string(number) +
           " is persistent, so it is neither allocated nor freed; leave the line out");
    }
    if (tensor.freed_before != Trace::kNone) {
      fail("tensor " + std::to_string(number) + " was freed before; give what is allocated anew an id of its own");
    }
    return {tensor, used_[index]};
  }

  void read_alloc() {
    const auto [tensor, used] = subject(Key::kAlloc);
    const std::string named = "tensor " + std::to_string(tensor.id);
    if (tensor.allocated_before != Trace::kNone) fail(named + " is allocated twice; leave this line out");
    if (used) fail(named + " is allocated after it was used; put the line before its first launch");
    tensor.allocated_before = static_cast<std::uint32_t>(trace_.launches.size());
  }

  void read_free() {
    const auto [tensor, used] = subject(Key::kFree);
    if (!used && tensor.allocated_before == Trace::kNone) {
      fail("tensor " + std::to_string(tensor.id) + " is freed but was neither allocated nor used; leave the line out");
    }
    tensor.freed_before = static_cast<std::uint32_t>(trace_.launches.size());
  }

  // Marks of other names are for whoever wrote them.
  void read_mark() {
    if (text(Key::kMark) != "step") return;
    const auto here = static_cast<std::uint32_t>(trace_.launches.size());
    if (here == (trace_.steps.empty() ? 0 : trace_.steps.back())) {
      fail("an iteration without launches; put {\"mark\":\"step\"} behind the last launch of an iteration");
    }
    trace_.steps.push_back(here);
  }

  LineReader lines_;
  JsonLine json_;
  Trace trace_;
  Ids ids_;
  std::map<std::string, std::uint32_t, std::less<>> ops_;
  std::vector<bool> used_;   // by tensor: by a launch
  std::uint64_t bytes_ = 0;  // of all tensors
  std::uint64_t ns_ = 0;     // of all launches
};

}  // namespace

Trace read_trace(PeekableSource& source) { return Reader(source).run(); }

Trace read_trace(const std::string& path) {
  PeekableSource source(open_source(path), path == "-" ? "standard input" : path);
  return read_trace(source);
}

Trace read_trace(std::istream& stream, const std::string& name) {
  PeekableSource source(open_source(stream, name), name);
  return read_trace(source);
}

}  // namespace ebb
