// See byte_source.h.
#include "trace/byte_source.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "ebb/status.h"

namespace ebb {
namespace {

constexpr std::size_t kMagicBytes = 4;

std::string shown(const std::string& path) { return path == "-" ? "standard input" : path; }

class FileSource : public ByteSource {
 public:
  explicit FileSource(const std::string& path) : name_(shown(path)) {
    if (path == "-") {
      file_ = STDIN_FILENO;
      return;
    }
    file_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file_ < 0) throw Error(Status::kIoError, name_ + ": cannot be opened: " + std::strerror(errno));
  }
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;
  ~FileSource() override {
    if (file_ > STDIN_FILENO) ::close(file_);
  }

  std::size_t read(std::span<char> buffer) override {
    while (true) {
      const ssize_t got = ::read(file_, buffer.data(), buffer.size());
      if (got >= 0) return static_cast<std::size_t>(got);
      if (errno != EINTR) throw Error(Status::kIoError, name_ + ": cannot be read: " + std::strerror(errno));
    }
  }

 private:
  std::string name_;
  int file_ = -1;
};

class StreamSource : public ByteSource {
 public:
  StreamSource(std::istream& stream, std::string name) : stream_(stream), name_(std::move(name)) {}

  std::size_t read(std::span<char> buffer) override {
    stream_.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    if (stream_.bad()) throw Error(Status::kIoError, name_ + ": cannot be read");
    return static_cast<std::size_t>(stream_.gcount());
  }

 private:
  std::istream& stream_;
  std::string name_;
};

// Gives back what was looked at to choose the decompressor, then the rest.
class ReplayedSource : public ByteSource {
 public:
  ReplayedSource(std::string first, std::unique_ptr<ByteSource> rest)
      : first_(std::move(first)), rest_(std::move(rest)) {}

  std::size_t read(std::span<char> buffer) override {
    if (given_ == first_.size()) return rest_->read(buffer);
    const std::size_t count = std::min(buffer.size(), first_.size() - given_);
    std::memcpy(buffer.data(), first_.data() + given_, count);
    given_ += count;
    return count;
  }

 private:
  std::string first_;
  std::size_t given_ = 0;
  std::unique_ptr<ByteSource> rest_;
};

// The chunks of compressed input that both decompressors eat from.
class Input {
 public:
  explicit Input(std::unique_ptr<ByteSource> source) : source_(std::move(source)) {}
  // What has not been taken yet; empty only at the end of the source.
  std::span<const char> available() {
    if (begin_ == end_) {
      begin_ = 0;
      end_ = source_->read(chunk_);
    }
    return std::span<const char>(chunk_).subspan(begin_, end_ - begin_);
  }
  void take(std::size_t count) { begin_ += count; }

 private:
  std::unique_ptr<ByteSource> source_;
  std::array<char, ByteSource::kChunkBytes> chunk_{};
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

[[noreturn]] void damaged(const std::string& name, const char* what, const std::string& why) {
  throw Error(Status::kCorrupt,
              name + ": the " + what + " data " + why + "; fetch or write the file again (" + what + " -t tests it)");
}

// One or more gzip members; anything behind the last is an error, since it would be lost silently.
class GzipSource : public ByteSource {
 public:
  GzipSource(std::unique_ptr<ByteSource> source, std::string name) : input_(std::move(source)), name_(std::move(name)) {
    constexpr int kGzipOnly = 16;
    EBB_CHECK_EQ(inflateInit2(&state_, MAX_WBITS + kGzipOnly), Z_OK);
  }
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;
  ~GzipSource() override { inflateEnd(&state_); }

  std::size_t read(std::span<char> buffer) override {
    state_.next_out = reinterpret_cast<Bytef*>(buffer.data());
    state_.avail_out = static_cast<uInt>(buffer.size());
    while (state_.avail_out == buffer.size()) {
      const std::span<const char> available = input_.available();
      if (available.empty()) {
        if (!between_members_) damaged(name_, "gzip", "is cut off");
        return 0;
      }
      if (between_members_) inflateReset(&state_);
      between_members_ = false;
      state_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(available.data()));  // zlib does not write there
      state_.avail_in = static_cast<uInt>(available.size());
      const int result = inflate(&state_, Z_NO_FLUSH);
      input_.take(available.size() - state_.avail_in);
      if (result == Z_STREAM_END) {
        between_members_ = true;
      } else if (result != Z_OK && result != Z_BUF_ERROR) {
        damaged(name_, "gzip", std::string("is damaged (") + (state_.msg != nullptr ? state_.msg : "no reason") + ")");
      }
    }
    return buffer.size() - state_.avail_out;
  }

 private:
  Input input_;
  std::string name_;
  z_stream state_{};
  bool between_members_ = false;
};

// One or more Zstandard frames.
class ZstdSource : public ByteSource {
 public:
  ZstdSource(std::unique_ptr<ByteSource> source, std::string name)
      : input_(std::move(source)), name_(std::move(name)), state_(ZSTD_createDStream(), ZSTD_freeDStream) {
    EBB_CHECK(state_ != nullptr);
  }

  std::size_t read(std::span<char> buffer) override {
    ZSTD_outBuffer out{buffer.data(), buffer.size(), 0};
    while (out.pos == 0) {
      const std::span<const char> available = input_.available();
      ZSTD_inBuffer in{available.data(), available.size(), 0};
      const std::size_t result = ZSTD_decompressStream(state_.get(), &out, &in);
      if (ZSTD_isError(result)) damaged(name_, "zstd", std::string("is damaged (") + ZSTD_getErrorName(result) + ")");
      input_.take(in.pos);
      if (available.empty() && out.pos == 0) {
        if (inside_) damaged(name_, "zstd", "is cut off");
        return 0;
      }
      // At the end of the input the call only drains: then its result says nothing new about where the frame ends.
      if (!available.empty() || result == 0) inside_ = result != 0;
    }
    return out.pos;
  }

 private:
  Input input_;
  std::string name_;
  std::unique_ptr<ZSTD_DStream, std::size_t (*)(ZSTD_DStream*)> state_;
  bool inside_ = false;
};

bool starts_with_gzip(std::string_view first) { return first.starts_with("\x1f\x8b"); }

bool starts_with_zstd(std::string_view first) {
  if (first.size() < kMagicBytes) return false;
  const bool skippable = (first[0] & 0xf0) == 0x50 && first.substr(1) == std::string_view("\x2a\x4d\x18");
  return skippable || first == std::string_view("\x28\xb5\x2f\xfd");
}

std::unique_ptr<ByteSource> decompressed(std::unique_ptr<ByteSource> raw, const std::string& name) {
  std::array<char, kMagicBytes> magic{};
  std::size_t got = 0;
  while (got < magic.size()) {
    const std::size_t more = raw->read(std::span(magic).subspan(got));
    if (more == 0) break;
    got += more;
  }
  const std::string first(magic.data(), got);
  auto whole = std::make_unique<ReplayedSource>(first, std::move(raw));
  if (starts_with_gzip(first)) return std::make_unique<GzipSource>(std::move(whole), name);
  if (starts_with_zstd(first)) return std::make_unique<ZstdSource>(std::move(whole), name);
  return whole;
}

}  // namespace

std::unique_ptr<ByteSource> open_source(const std::string& path) {
  return decompressed(std::make_unique<FileSource>(path), shown(path));
}

std::unique_ptr<ByteSource> open_source(std::istream& stream, const std::string& name) {
  return decompressed(std::make_unique<StreamSource>(stream, name), name);
}

PeekableSource::PeekableSource(std::unique_ptr<ByteSource> source, std::string name)
    : source_(std::move(source)), name_(std::move(name)) {}

bool PeekableSource::fill() {
  if (ended_) return false;
  buffer_.erase(0, begin_);
  begin_ = 0;
  const std::size_t held = buffer_.size();
  buffer_.resize(held + ByteSource::kChunkBytes);
  const std::size_t got = source_->read(std::span(buffer_).subspan(held));
  buffer_.resize(held + got);
  ended_ = got == 0;
  return !ended_;
}

std::string_view PeekableSource::peek(std::size_t bytes) {
  while (buffer_.size() - begin_ < bytes && fill()) {
  }
  return std::string_view(buffer_).substr(begin_, bytes);
}

std::string_view PeekableSource::next() {
  if (begin_ == buffer_.size()) fill();
  const std::string_view all = std::string_view(buffer_).substr(begin_);
  begin_ = buffer_.size();
  return all;
}

int PeekableSource::get() {
  if (begin_ == buffer_.size() && !fill()) return -1;
  return static_cast<unsigned char>(buffer_[begin_++]);
}

}  // namespace ebb
