// See json_line.h.
#include "trace/json_line.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace ebb {
namespace {

using Key = JsonLine::Key;
using Type = JsonLine::Type;

constexpr std::array<const char*, JsonLine::kKeys> kTexts{"format",
                                                          "version",
                                                          "model",
                                                          "batch",
                                                          "source",
                                                          "device",
                                                          "device_bytes",
                                                          "host_bytes",
                                                          "device_link_bps",
                                                          "flash_read_bps",
                                                          "flash_write_bps",
                                                          "flash_total_bps",
                                                          "launch_host_ns",
                                                          "sync_host_ns",
                                                          "sequence",
                                                          "tensor",
                                                          "bytes",
                                                          "kind",
                                                          "persistent",
                                                          "mapped",
                                                          "continues",
                                                          "launch",
                                                          "op",
                                                          "ns",
                                                          "sync",
                                                          "reads",
                                                          "writes",
                                                          "alloc",
                                                          "free",
                                                          "mark"};

Key key_of(std::string_view text) {
  const auto found = std::find(kTexts.begin(), kTexts.end(), text);
  return static_cast<Key>(found - kTexts.begin());
}

// Receives the line from the parser. Depth 1 is the object itself; deeper is inside the value of `key_`.
class Scanner final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Scanner(JsonLine& line) : line_(line) {}
  const std::string& problem() const { return problem_; }

  bool null() override { return take(Type::kNull, 0, "null"); }
  bool boolean(bool value) override { return take(Type::kBoolean, value ? 1 : 0, value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override {
    return take(Type::kNegative, 0, value == 0 ? "-0" : std::to_string(value));
  }
  bool number_unsigned(number_unsigned_t value) override { return take(Type::kWhole, value, ""); }
  bool number_float(number_float_t /*value*/, const string_t& text) override {
    const bool digits = text.find_first_not_of("0123456789") == string_t::npos;
    const Type negative = text.find_first_of(".eE") == string_t::npos ? Type::kNegative : Type::kFraction;
    return take(digits ? Type::kHuge : negative, 0, text);
  }
  bool string(string_t& value) override { return take(Type::kString, 0, value); }
  bool binary(binary_t& /*value*/) override { return false; }
  bool start_array(std::size_t /*size*/) override { return open(Type::kArray); }
  bool end_array() override { return close(); }
  bool start_object(std::size_t /*size*/) override { return open(Type::kObject); }
  bool end_object() override { return close(); }

  bool key(string_t& text) override {
    if (depth_ > 1) return true;
    key_ = key_of(text);
    if (key_ == Key::kNone) return true;
    if (line_.at(key_).type == Type::kAbsent) return true;
    problem_ = "the key \"" + text + "\" is there twice; keep one of them";
    return false;
  }
  bool parse_error(std::size_t position, const std::string& /*token*/, const nlohmann::detail::exception&) override {
    problem_ = "not valid JSON at column " + std::to_string(std::max<std::size_t>(position, 1)) +
               "; every line of a trace is one JSON object in UTF-8";
    return false;
  }

 private:
  bool take(Type type, std::uint64_t number, const std::string& text) {
    if (depth_ == 0) return not_an_object();
    if (key_ == Key::kNone) return true;
    JsonLine::Value& value = line_.at(key_);
    if (depth_ == 1) {
      value.type = type;
      value.number = number;
      value.text = text;
    } else if (depth_ == 2 && value.type == Type::kArray) {
      if (type == Type::kWhole) {
        value.numbers.push_back(number);
      } else if (value.stranger == Type::kAbsent) {
        value.stranger = type;
        value.stranger_text = text;
      }
    }
    return true;
  }
  bool open(Type type) {
    if (depth_ == 0 && type == Type::kArray) return not_an_object();
    if (depth_ > 0 && !take(type, 0, "")) return false;
    ++depth_;
    return true;
  }
  bool close() {
    --depth_;
    return true;
  }
  bool not_an_object() {
    problem_ = "not a JSON object; every line of a trace is one, like {\"free\":7}";
    return false;
  }

  JsonLine& line_;
  std::string problem_;
  Key key_ = Key::kNone;
  std::size_t depth_ = 0;
};

}  // namespace

const char* JsonLine::text(Key key) { return kTexts[static_cast<std::size_t>(key)]; }

void JsonLine::clear() {
  for (Value& value : values_) {
    value.type = Type::kAbsent;
    value.stranger = Type::kAbsent;
    value.numbers.clear();
  }
}

bool JsonLine::any() const {
  return std::any_of(values_.begin(), values_.end(), [](const Value& value) { return value.type > Type::kNull; });
}

std::string JsonLine::parse(std::string_view line) {
  clear();
  // The parser takes a NUL byte for the end of its input, and what follows would be lost.
  if (const std::size_t nul = line.find('\0'); nul != std::string_view::npos) {
    return "a NUL byte at column " + std::to_string(nul + 1) +
           "; a trace is text in UTF-8, this file is not one or is damaged";
  }
  Scanner scanner(*this);
  if (nlohmann::json::sax_parse(line.begin(), line.end(), &scanner)) return "";
  return scanner.problem().empty() ? "not valid JSON" : scanner.problem();
}

std::string describe(JsonLine::Type type, const std::string& text) {
  constexpr std::size_t kShown = 40;
  switch (type) {
    case Type::kString:
      return text.size() > kShown ? "a string of " + std::to_string(text.size()) + " bytes" : "\"" + text + "\"";
    case Type::kArray: return "a list";
    case Type::kObject: return "an object";
    case Type::kAbsent: return "nothing";
    default: return text.size() > kShown ? "a number of " + std::to_string(text.size()) + " digits" : text;
  }
}

}  // namespace ebb
