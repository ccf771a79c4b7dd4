// See import_chakra.h.
#include "trace/import_chakra.h"

#include <string>
#include <utility>

#include "ebb/status.h"
#include "trace/line_reader.h"
#include "trace/tensor_values.h"

namespace ebb {
namespace {

constexpr std::uint64_t kMessageBytesMax = LineReader::kLineBytesMax * 4;
constexpr int kVarintBytesMax = 10;

// What a message or a length is when it does not follow the encoding.
struct Malformed {};

// One message of the protobuf wire format, field by field.
class Message {
 public:
  explicit Message(std::string_view bytes) : bytes_(bytes) {}

  // Moves to the next field; false at the end.
  bool next() {
    if (bytes_.empty()) return false;
    const std::uint64_t tag = varint(bytes_);
    field_ = tag >> 3;
    number_ = 0;
    data_ = {};
    switch (tag & 7) {
      case 0: number_ = varint(bytes_); break;
      case 1: data_ = take(8); break;
      case 2: data_ = take(varint(bytes_)); break;
      case 5: data_ = take(4); break;
      default: throw Malformed();  // groups, which proto3 does not have
    }
    is_data_ = (tag & 7) == 2;
    if (field_ == 0) throw Malformed();
    return true;
  }
  std::uint64_t field() const { return field_; }
  bool is_data() const { return is_data_; }
  std::uint64_t number() const { return number_; }
  std::string_view data() const { return data_; }

  static std::uint64_t varint(std::string_view& bytes) {
    std::uint64_t value = 0;
    for (int i = 0; i < kVarintBytesMax && !bytes.empty(); ++i) {
      const auto byte = static_cast<unsigned char>(bytes.front());
      bytes.remove_prefix(1);
      value |= std::uint64_t{byte & 0x7fu} << (7 * i);
      if ((byte & 0x80u) == 0) return value;
    }
    throw Malformed();
  }

 private:
  std::string_view take(std::uint64_t count) {
    if (count > bytes_.size()) throw Malformed();
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }

  std::string_view bytes_;
  std::uint64_t field_ = 0;
  std::uint64_t number_ = 0;
  std::string_view data_;
  bool is_data_ = false;
};

// Fields of Node, IOInfo and AttributeProto in et_def.proto.
enum NodeField : std::uint64_t { kId = 1, kName, kType, kControlDeps, kDurationUs = 7, kInputs, kOutputs, kAttributes };
enum IoField : std::uint64_t { kValues = 1, kShapes };
enum AttributeField : std::uint64_t { kAttributeName = 1, kStringValue = 29 };
constexpr std::uint64_t kFirstCommunicationType = 5;  // COMM_SEND_NODE, COMM_RECV_NODE, COMM_COLL_NODE
constexpr std::uint64_t kLastCommunicationType = 7;
constexpr std::uint64_t kVersionField = 1;

class ChakraImporter {
 public:
  explicit ChakraImporter(PeekableSource& source) : source_(source) {}

  Import run() {
    try {
      std::string message;
      if (!next_message(message)) fail("the file is empty");
      const std::string version = read_metadata(message);
      while (next_message(message)) add_node(message);
      return finish(version);
    } catch (const Malformed&) {
      fail("message " + std::to_string(messages_) + " is damaged, or this is no Chakra trace of schema 0.0.4");
    }
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw Error(Status::kInvalid, source_.name() + ": " + what); }

  bool next_message(std::string& message) {
    std::string head;
    do {
      const int byte = source_.get();
      if (byte < 0 && head.empty()) return false;
      if (head.empty()) ++messages_;
      if (byte < 0 || head.size() == kVarintBytesMax) throw Malformed();
      head += static_cast<char>(byte);
    } while ((head.back() & '\x80') != 0);
    std::string_view rest = head;
    const std::uint64_t length = Message::varint(rest);
    if (length > kMessageBytesMax) throw Malformed();
    message.clear();
    while (message.size() < length) {
      const int byte = source_.get();
      if (byte < 0) fail("the file ends inside message " + std::to_string(messages_) + "; fetch or write it again");
      message += static_cast<char>(byte);
    }
    return true;
  }

  static std::string read_metadata(std::string_view bytes) {
    std::string version;
    for (Message message(bytes); message.next();) {
      if (message.field() == kVersionField && message.is_data()) version = message.data();
    }
    return version;
  }

  void add_node(std::string_view bytes) {
    if (nodes_.size() >= Trace::kLinesMax)
      fail("more than " + std::to_string(Trace::kLinesMax) + " nodes; record fewer iterations");
    OperatorNode node;
    bool has_parent = false;
    std::uint64_t type = 0;
    for (Message message(bytes); message.next();) {
      switch (message.field()) {
        case kId: node.id = message.number(); break;
        case kName: node.name = message.data(); break;
        case kType: type = message.number(); break;
        case kControlDeps:
          if (!has_parent) has_parent = read_parent(message, node.parent);
          break;
        case kDurationUs: read_duration(message.number(), node); break;
        case kInputs: node.inputs = read_io(message.data(), messages_); break;
        case kOutputs: node.outputs = read_io(message.data(), messages_); break;
        case kAttributes: read_attribute(message.data(), node); break;
        default: break;
      }
    }
    if (!has_parent) node.parent = node.id;
    node.opaque = node.schema.empty() && type >= kFirstCommunicationType && type <= kLastCommunicationType;
    nodes_.push_back(std::move(node));
  }

  // Repeated numbers come packed or one by one; the first is the operator that called this one.
  static bool read_parent(const Message& message, std::uint64_t& parent) {
    std::string_view packed = message.data();
    if (message.is_data() && packed.empty()) return false;
    parent = message.is_data() ? Message::varint(packed) : message.number();
    return true;
  }

  // An absent number and 0 are the same in proto3.
  static void read_duration(std::uint64_t us, OperatorNode& node) {
    constexpr std::uint64_t kNsPerUs = 1000;
    if (us > 0 && us <= Trace::kNsMax / kNsPerUs) node.ns = us * kNsPerUs;
  }

  static void read_attribute(std::string_view bytes, OperatorNode& node) {
    std::string_view name, value;
    for (Message message(bytes); message.next();) {
      if (message.field() == kAttributeName) name = message.data();
      if (message.field() == kStringValue) value = message.data();
    }
    if (name == "op_schema") node.schema = value;
  }

  std::vector<std::vector<TensorRef>> read_io(std::string_view bytes, std::uint64_t number) {
    nlohmann::json values, shapes;
    for (Message message(bytes); message.next();) {
      if (message.field() == kValues) values = parse_python(message.data());
      if (message.field() == kShapes) shapes = parse_python(message.data());
    }
    unreadable_ += values.is_discarded() ? 1 : 0;
    try {
      std::vector<std::vector<TensorRef>> arguments = tensor_values(values, shapes, nlohmann::json());
      for (const auto& argument : arguments) tensors_ += argument.size();
      if (tensors_ > Trace::kUsesMax) fail("more than 2^28 uses of tensors; record fewer iterations");
      return arguments;
    } catch (const Error& error) {
      fail("message " + std::to_string(number) + ": " + error.what());
    }
  }

  Import finish(const std::string& version) {
    if (tensors_ == 0) {
      fail("no node names a tensor, so there is no memory to trace; traces that Chakra converts from PyTorch do");
    }
    Import import = import_graph(std::move(nodes_));
    import.trace.source = "Chakra execution trace" + (version.empty() ? "" : " " + version);
    if (unreadable_ > 0) {
      import.notes.push_back(std::to_string(unreadable_) + " lists of arguments could not be read and count as empty");
    }
    return import;
  }

  PeekableSource& source_;
  std::vector<OperatorNode> nodes_;
  std::uint64_t tensors_ = 0;
  std::uint64_t messages_ = 0;
  std::uint64_t unreadable_ = 0;
};

}  // namespace

bool looks_like_chakra(std::string_view beginning) {
  try {
    if (beginning.empty()) return false;
    const std::uint64_t length = Message::varint(beginning);
    constexpr char kVersionTag = 0x0a;
    constexpr char kAttributeTag = 0x12;
    if (length == 0) return true;
    return !beginning.empty() && (beginning.front() == kVersionTag || beginning.front() == kAttributeTag);
  } catch (const Malformed&) {
    return false;
  }
}

Import import_chakra(PeekableSource& source) { return ChakraImporter(source).run(); }

}  // namespace ebb
