// See tensor_values.h.
#include "trace/tensor_values.h"

#include <charconv>
#include <cstdint>
#include <string>

#include "ebb/status.h"

namespace ebb {
namespace {

using Json = nlohmann::json;

constexpr int kListDepthMax = 64;

// Anything that is not a list of whole numbers, in particular a symbolic size, is unknown.
std::vector<std::uint64_t> whole_numbers(const Json& list) {
  std::vector<std::uint64_t> numbers;
  if (!list.is_array()) return numbers;
  for (const Json& number : list) {
    if (!number.is_number_unsigned()) return {};
    numbers.push_back(number.get<std::uint64_t>());
  }
  return numbers;
}

const Json& element(const Json& list, std::size_t index) {
  static const Json kNothing;
  return list.is_array() && index < list.size() ? list[index] : kNothing;
}

bool is_tensor(const Json& value) {
  constexpr std::size_t kNumbers = 5;
  if (!value.is_array() || value.size() <= kNumbers || !value[kNumbers].is_string()) return false;
  for (std::size_t i = 0; i < kNumbers; ++i) {
    if (!value[i].is_number_unsigned()) return false;
  }
  return true;
}

void collect(const Json& value, const Json& shape, const Json& strides, int depth, std::vector<TensorRef>& tensors) {
  if (!value.is_array() || depth > kListDepthMax) return;
  if (!is_tensor(value)) {
    for (std::size_t i = 0; i < value.size(); ++i) {
      collect(value[i], element(shape, i), element(strides, i), depth + 1, tensors);
    }
    return;
  }
  TensorRef tensor;
  tensor.storage = value[1].get<std::uint64_t>();
  const auto elements = value[3].get<std::uint64_t>();
  const auto element_bytes = value[4].get<std::uint64_t>();
  if (!extent_bytes(value[2].get<std::uint64_t>(), elements, element_bytes, whole_numbers(shape),
                    whole_numbers(strides), tensor.bytes)) {
    throw Error(Status::kInvalid,
                "storage " + std::to_string(tensor.storage) + " has more than 2^56 bytes; the recording is damaged");
  }
  if (tensor.bytes > 0 && tensor.storage != 0) tensors.push_back(tensor);
}

class PythonParser {
 public:
  explicit PythonParser(std::string_view text) : text_(text) {}

  Json run() {
    Json value;
    if (!parse(value, 0)) return Json(Json::value_t::discarded);
    skip_blanks();
    return at_ == text_.size() ? value : Json(Json::value_t::discarded);
  }

 private:
  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }
  bool take(char c) {
    skip_blanks();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  bool parse(Json& value, int depth) {
    skip_blanks();
    if (depth > kListDepthMax || at_ == text_.size()) return false;
    const char c = text_[at_];
    if (c == '[' || c == '(') return parse_list(value, c == '[' ? ']' : ')', depth);
    if (c == '\'' || c == '"') return parse_string(value);
    return parse_word(value);
  }

  bool parse_list(Json& value, char end, int depth) {
    ++at_;
    value = Json::array();
    while (!take(end)) {
      if (!value.empty() && !take(',')) return false;
      if (!value.empty() && take(end)) return true;  // (1,)
      value.emplace_back();
      if (!parse(value.back(), depth + 1)) return false;
    }
    return true;
  }

  // Escapes stay as they are: no string here means more than that it is one.
  bool parse_string(Json& value) {
    const char quote = text_[at_++];
    const std::size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != quote) at_ += text_[at_] == '\\' ? 2 : 1;
    if (at_ >= text_.size()) return false;
    value = std::string(text_.substr(begin, at_++ - begin));
    return true;
  }

  // A whole number, or something that counts as none: a fraction, None, True, nan, <torch.Generator>.
  bool parse_word(Json& value) {
    const std::size_t begin = at_;
    while (at_ < text_.size() && std::string_view(",])").find(text_[at_]) == std::string_view::npos) ++at_;
    std::string_view word = text_.substr(begin, at_ - begin);
    while (!word.empty() && word.back() == ' ') word.remove_suffix(1);
    if (word.empty()) return false;
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error == std::errc() && end == word.data() + word.size()) value = number;
    return true;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

std::vector<std::vector<TensorRef>> tensor_values(const Json& values, const Json& shapes, const Json& strides) {
  std::vector<std::vector<TensorRef>> arguments;
  if (!values.is_array()) return arguments;
  arguments.resize(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    collect(values[i], element(shapes, i), element(strides, i), 0, arguments[i]);
  }
  return arguments;
}

Json parse_python(std::string_view text) { return PythonParser(text).run(); }

}  // namespace ebb
