// ByteSource: the bytes of a file, decompressed, from front to back. What a file is compressed with is told by its
// first bytes and not by its name: gzip, Zstandard, or nothing.
//
// Owned by one reader; one thread. Memory is bounded whatever the file holds: buffers of kChunkBytes and what the
// decompressor needs for its window (at most 128 MiB, the limit of the zstd command). Errors are thrown as Error, with
// the name of the source: kIoError when it cannot be read, kCorrupt when compressed data is damaged or cut off.
#pragma once

#include <cstddef>
#include <istream>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace ebb {

class ByteSource {
 public:
  static constexpr std::size_t kChunkBytes = std::size_t{1} << 16;

  virtual ~ByteSource() = default;
  // Fills `buffer` from the front and returns how much of it; 0 only at the end.
  virtual std::size_t read(std::span<char> buffer) = 0;
};

// A file, or standard input for "-"; already decompressed.
std::unique_ptr<ByteSource> open_source(const std::string& path);
// Likewise from a stream, which must outlive the source; `name` stands in errors.
std::unique_ptr<ByteSource> open_source(std::istream& stream, const std::string& name);

// A source that can be looked into before it is read.
class PeekableSource {
 public:
  PeekableSource(std::unique_ptr<ByteSource> source, std::string name);

  const std::string& name() const { return name_; }
  // Up to `bytes` of what comes next; less only if the source ends there. Valid until the next call.
  std::string_view peek(std::size_t bytes);
  // What comes next, at least one byte; empty at the end. Valid until the next call.
  std::string_view next();
  // The next byte, or -1 at the end.
  int get();

 private:
  bool fill();

  std::unique_ptr<ByteSource> source_;
  std::string name_;
  std::string buffer_;
  std::size_t begin_ = 0;
  bool ended_ = false;
};

}  // namespace ebb
