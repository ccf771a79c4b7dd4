// .npy files, formats 1.0 and 2.0 (numpy.lib.format). The header is read strictly: the keys that NumPy writes, a plain
// type, a shape that the file is long enough for.
#include <cstdio>
#include <cstring>
#include <memory>

#include "array/ops/operands.h"

namespace ebb {
namespace {

using array::invalid;

constexpr std::size_t kHeaderMax = 1 << 20;

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, Close>;

File open(const char* who, const std::string& path, const char* mode) {
  File file(std::fopen(path.c_str(), mode));
  if (file == nullptr) throw Error(Status::kIoError, std::string(who) + ": " + path + ": " + std::strerror(errno));
  return file;
}

void read_exactly(std::FILE* file, void* out, std::size_t bytes, const std::string& path) {
  if (bytes > 0 && std::fread(out, 1, bytes, file) != bytes) {
    throw Error(Status::kIoError, "load_npy: " + path + " ends too early");
  }
}

struct Header {
  DType dtype;
  bool fortran_order;
  Dims shape;
};

Header parse(const std::string& text, const std::string& path) {
  // What follows `key`, from after `open` to before `close`.
  const auto field = [&](const char* key, char open, const char* close) {
    std::size_t begin = text.find(key);
    if (begin != std::string::npos) begin = text.find_first_not_of(' ', begin + std::strlen(key));
    if (begin != std::string::npos && open != 0) begin = text[begin] == open ? begin + 1 : std::string::npos;
    const std::size_t end = begin == std::string::npos ? begin : text.find_first_of(close, begin);
    if (end == std::string::npos) {
      invalid("load_npy", path + " has a header that is not understood: " + text.substr(0, 200));
    }
    return text.substr(begin, end - begin);
  };
  Header header{};
  const std::string code = field("'descr':", '\'', "'");
  bool known = false;
  for (int t = 0; t < kDTypes; ++t) {
    const auto dtype = static_cast<DType>(t);
    const std::string npy = detail::info(dtype).npy_code;
    // "=" and "<" are the same here; a single byte has no order.
    if (npy.empty() || code.size() < 2 || code.substr(1) != npy.substr(1) || code[0] == '>') continue;
    header.dtype = dtype;
    known = true;
  }
  if (!known) invalid("load_npy", path + " has elements of type " + code + ", which is not supported");
  header.fortran_order = field("'fortran_order':", 0, ",}") == "True";
  std::string sizes = field("'shape':", '(', ")");
  for (const char* at = sizes.c_str(); *at != 0;) {
    if (*at < '0' || *at > '9') {
      ++at;
      continue;
    }
    char* end = nullptr;
    header.shape.push_back(std::strtoll(at, &end, 10));
    at = end;
  }
  return header;
}

}  // namespace

void save_npy(const std::string& path, const Array& source) {
  const std::string code = detail::info(source.dtype()).npy_code;
  if (code.empty()) invalid("save_npy", "the format has no bfloat16; convert with astype()");
  const Array values = array::to_host(source.contiguous());
  std::string header =
      "{'descr': '" + code + "', 'fortran_order': False, 'shape': " + array::to_text(values.shape()) + ", }";
  const std::size_t unpadded = 10 + header.size() + 1;
  header += std::string((64 - unpadded % 64) % 64, ' ') + "\n";
  const std::uint8_t start[10] = {0x93,
                                  'N',
                                  'U',
                                  'M',
                                  'P',
                                  'Y',
                                  1,
                                  0,
                                  static_cast<std::uint8_t>(header.size() & 255),
                                  static_cast<std::uint8_t>(header.size() >> 8)};
  File file = open("save_npy", path, "wb");
  const auto bytes = static_cast<std::size_t>(values.size()) * size_of(values.dtype());
  const bool written = std::fwrite(start, 1, sizeof start, file.get()) == sizeof start &&
                       std::fwrite(header.data(), 1, header.size(), file.get()) == header.size() &&
                       (bytes == 0 || std::fwrite(values.data(), 1, bytes, file.get()) == bytes) &&
                       std::fflush(file.get()) == 0;
  if (!written) throw Error(Status::kIoError, "save_npy: " + path + ": " + std::strerror(errno));
}

Array load_npy(const std::string& path) {
  File file = open("load_npy", path, "rb");
  std::uint8_t start[12] = {};
  read_exactly(file.get(), start, 10, path);
  if (std::memcmp(start, "\x93NUMPY", 6) != 0 || start[6] < 1 || start[6] > 3) {
    invalid("load_npy", path + " is not a .npy file");
  }
  std::size_t length = start[8] | start[9] << 8;
  if (start[6] > 1) {
    read_exactly(file.get(), start + 10, 2, path);
    length |= static_cast<std::size_t>(start[10]) << 16 | static_cast<std::size_t>(start[11]) << 24;
  }
  if (length > kHeaderMax) invalid("load_npy", path + " has a header of " + std::to_string(length) + " bytes");
  std::string text(length, ' ');
  read_exactly(file.get(), text.data(), length, path);
  Header header = parse(text, path);
  Dims stored = header.shape;
  if (header.fortran_order) stored = Dims(header.shape.rbegin(), header.shape.rend());
  const auto info = array::intern("load_npy", header.dtype, stored);
  // Before memory is asked for: a header may claim anything.
  const long here = std::ftell(file.get());
  std::fseek(file.get(), 0, SEEK_END);
  const auto there = static_cast<std::uint64_t>(std::ftell(file.get()) - here);
  std::fseek(file.get(), here, SEEK_SET);
  const auto bytes = static_cast<std::size_t>(info->count) * size_of(header.dtype);
  if (there < bytes) throw Error(Status::kIoError, "load_npy: " + path + " is shorter than its header says");
  const Array result = array::run_on_host([&] {
    const auto node = array::new_memory(info);
    read_exactly(file.get(), node->storage->data, bytes, path);
    return array::wrap(node);
  });
  if (!header.fortran_order) return result;
  Dims order;
  for (int d = result.rank() - 1; d >= 0; --d) order.push_back(d);
  return result.permute(order);
}

}  // namespace ebb
