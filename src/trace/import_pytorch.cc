// See import_pytorch.h.
#include "trace/import_pytorch.h"

#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "ebb/status.h"
#include "trace/line_reader.h"
#include "trace/tensor_values.h"

namespace ebb {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kRecordBytesMax = LineReader::kLineBytesMax * 4;  // a node repeats each tensor in several lists
constexpr int kJsonDepthMax = 64;

// The characters of a source as the parser wants them, counted so that neither a file nor a node of it has no end.
class Characters {
 public:
  Characters() = default;  // the end
  Characters(PeekableSource& source, std::uint64_t& since_node) : source_(&source), since_node_(&since_node) {
    ++*this;
  }

  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  const char& operator*() const { return value_; }
  Characters& operator++() {
    const int next = source_->get();
    ended_ = next < 0;
    value_ = static_cast<char>(next);
    if (++*since_node_ > kRecordBytesMax) {
      throw Error(Status::kInvalid, source_->name() + ": an object of more than " + std::to_string(kRecordBytesMax) +
                                        " bytes; this is no execution trace of PyTorch");
    }
    return *this;
  }
  bool operator==(const Characters& other) const { return ended_ == other.ended_; }

 private:
  PeekableSource* source_ = nullptr;
  std::uint64_t* since_node_ = nullptr;
  char value_ = 0;
  bool ended_ = true;
};

const Json& member(const Json& object, const char* key) {
  static const Json kNothing;
  if (!object.is_object()) return kNothing;
  const auto found = object.find(key);
  return found == object.end() ? kNothing : *found;
}

const Json& attribute(const Json& node, const char* name) {
  static const Json kNothing;
  for (const Json& candidate : member(node, "attrs")) {
    if (member(candidate, "name") == name) return member(candidate, "value");
  }
  return kNothing;
}

std::string text_or_empty(const Json& value) { return value.is_string() ? value.get<std::string>() : std::string(); }

// Microseconds, as Chakra's linker writes them.
std::uint64_t nanoseconds(const Json& node) {
  constexpr double kNsPerUs = 1000;
  for (const char* key : {"exclusive_dur", "dur"}) {
    const Json& value = member(node, key);
    if (!value.is_number()) continue;
    const double ns = value.get<double>() * kNsPerUs;
    if (ns >= 0 && ns <= static_cast<double>(Trace::kNsMax)) return static_cast<std::uint64_t>(std::llround(ns));
  }
  return Trace::kUnknown;
}

class PytorchImporter {
 public:
  explicit PytorchImporter(PeekableSource& source) : source_(source) {}

  Import run() {
    const auto take = [this](int depth, Json::parse_event_t event, Json& parsed) {
      return on_event(depth, event, parsed);
    };
    try {
      const Json rest = Json::parse(Characters(source_, since_node_), Characters(), take);
      if (!saw_nodes_) fail("there are no \"nodes\"; this is no execution trace of PyTorch");
      return finish(text_or_empty(member(rest, "schema")));
    } catch (const Json::parse_error& error) {
      fail("not valid JSON at byte " + std::to_string(error.byte) +
           "; the recording may have been cut off: stop the observer before the program ends");
    } catch (const Json::exception&) {
      fail("this is no execution trace of PyTorch");
    }
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw Error(Status::kInvalid, source_.name() + ": " + what); }

  // Takes each element of the top-level "nodes" out of what is being parsed.
  bool on_event(int depth, Json::parse_event_t event, Json& parsed) {
    using Event = Json::parse_event_t;
    if (depth > kJsonDepthMax) fail("values are nested more than " + std::to_string(kJsonDepthMax) + " deep");
    if (event == Event::key && depth == 1) {
      in_nodes_ = parsed == "nodes";
      saw_nodes_ |= in_nodes_;
      since_node_ = 0;
    }
    if (!in_nodes_ || depth != 2 || (event != Event::object_end && event != Event::value)) return true;
    since_node_ = 0;
    add_node(parsed);
    return false;
  }

  void add_node(const Json& json) {
    if (nodes_.size() >= Trace::kLinesMax)
      fail("more than " + std::to_string(Trace::kLinesMax) + " nodes; record fewer iterations");
    const Json& id = member(json, "id");
    if (!id.is_number_unsigned()) fail("a node without an \"id\"; this is no execution trace of PyTorch");
    OperatorNode node;
    node.id = id.get<std::uint64_t>();
    const std::string named = "node " + std::to_string(node.id);
    // Schema 1.0.2 and later say "ctrl_deps", those before "parent".
    const Json& parent = json.contains("ctrl_deps") ? json["ctrl_deps"] : member(json, "parent");
    node.parent = parent.is_number_unsigned() ? parent.get<std::uint64_t>() : node.id;
    node.name = text_or_empty(member(json, "name"));
    node.schema = text_or_empty(attribute(json, "op_schema"));
    if (node.schema.empty()) node.schema = text_or_empty(member(json, "op_schema"));
    node.ns = nanoseconds(json);
    node.opaque = !text_or_empty(attribute(json, "kernel_backend")).empty() || node.name == "record_param_comms";
    try {
      node.inputs = values(json, "inputs", "input_shapes", "input_strides");
      node.outputs = values(json, "outputs", "output_shapes", "output_strides");
    } catch (const Error& error) {
      fail(named + ": " + error.what());
    }
    for (const auto* all : {&node.inputs, &node.outputs}) {
      for (const auto& value : *all) tensors_ += value.size();
    }
    if (tensors_ > Trace::kUsesMax) fail("more than 2^28 uses of tensors; record fewer iterations");
    nodes_.push_back(std::move(node));
  }

  // {"values": [...], "shapes": [...]}, or in schema 1.0.1 and earlier the lists themselves, side by side.
  static std::vector<std::vector<TensorRef>> values(const Json& node, const char* key, const char* shapes,
                                                    const char* strides) {
    const Json& io = member(node, key);
    if (io.is_array()) return tensor_values(io, member(node, shapes), member(node, strides));
    return tensor_values(member(io, "values"), member(io, "shapes"), member(io, "strides"));
  }

  Import finish(const std::string& schema) {
    if (tensors_ == 0) fail("no operator names a tensor; record with torch.profiler.ExecutionTraceObserver");
    Import import = import_graph(std::move(nodes_));
    import.trace.source = "PyTorch execution trace" + (schema.empty() ? "" : " " + schema);
    return import;
  }

  PeekableSource& source_;
  std::vector<OperatorNode> nodes_;
  std::uint64_t tensors_ = 0;
  std::uint64_t since_node_ = 0;
  bool in_nodes_ = false;
  bool saw_nodes_ = false;
};

}  // namespace

Import import_pytorch(PeekableSource& source) { return PytorchImporter(source).run(); }

}  // namespace ebb
