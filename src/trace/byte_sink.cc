// See byte_sink.h.
#include "trace/byte_sink.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "ebb/status.h"

namespace ebb {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{1} << 16;
constexpr int kTemporaryNamesMax = 100;

// The file behind a chain of symbolic links: the link stays, its target is replaced.
std::string resolved(const std::string& path) {
  const std::unique_ptr<char, void (*)(void*)> real(::realpath(path.c_str(), nullptr), std::free);
  return real == nullptr ? path : std::string(real.get());
}

class FileSink : public ByteSink {
 public:
  explicit FileSink(const std::string& path) : path_(path) {
    if (path == "-") {
      path_ = "standard output";
      file_ = STDOUT_FILENO;
      return;
    }
    struct stat status {};
    const bool exists = ::stat(path.c_str(), &status) == 0;
    if (exists && S_ISDIR(status.st_mode)) fail("is a directory; name a file in it", 0);
    if (exists && !S_ISREG(status.st_mode)) {
      file_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
      if (file_ < 0) fail("cannot be opened", errno);
      return;
    }
    if (exists) path_ = resolved(path);
    open_temporary(exists ? status.st_mode & 07777 : 0666, exists);
  }
  FileSink(const FileSink&) = delete;
  FileSink& operator=(const FileSink&) = delete;
  ~FileSink() override {
    if (file_ > STDERR_FILENO) ::close(file_);
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
  }

  void write(std::string_view bytes) override {
    while (!bytes.empty()) {
      const ssize_t put = ::write(file_, bytes.data(), bytes.size());
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) fail("cannot be written", errno);
      bytes.remove_prefix(static_cast<std::size_t>(put));
    }
  }

  void finish() override {
    if (temporary_.empty()) return;
    // Delayed allocation can find the disk full only now; before the name is given nothing is lost by that.
    if (::fsync(file_) != 0) fail("cannot be written", errno);
    if (::close(std::exchange(file_, -1)) != 0) fail("cannot be written", errno);
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("cannot be given its name", errno);
    temporary_.clear();
  }

 private:
  [[noreturn]] void fail(const char* what, int error) const {
    throw Error(Status::kIoError, path_ + ": " + what + (error == 0 ? "" : std::string(": ") + std::strerror(error)));
  }

  void open_temporary(mode_t mode, bool exact) {
    for (int attempt = 0; attempt < kTemporaryNamesMax; ++attempt) {
      std::string name = path_ + ".part-" + std::to_string(::getpid()) + "-" + std::to_string(attempt);
      file_ = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
      if (file_ >= 0) {
        temporary_ = std::move(name);
        if (exact) static_cast<void>(::fchmod(file_, mode));  // a replaced file keeps its mode where that is allowed
        return;
      }
      if (errno != EEXIST) break;
    }
    fail("cannot be created", errno);
  }

  std::string path_;
  std::string temporary_;  // empty: written directly, or done
  int file_ = -1;
};

class GzipSink : public ByteSink {
 public:
  explicit GzipSink(std::unique_ptr<ByteSink> file) : file_(std::move(file)) {
    constexpr int kGzipHeader = 16;
    constexpr int kMemoryLevel = 8;
    EBB_CHECK_EQ(deflateInit2(&state_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, MAX_WBITS + kGzipHeader, kMemoryLevel,
                              Z_DEFAULT_STRATEGY),
                 Z_OK);
  }
  GzipSink(const GzipSink&) = delete;
  GzipSink& operator=(const GzipSink&) = delete;
  ~GzipSink() override { deflateEnd(&state_); }

  void write(std::string_view bytes) override {
    while (!bytes.empty()) {
      const std::string_view piece = bytes.substr(0, std::size_t{1} << 30);  // zlib counts in 32 bits
      compress(piece, Z_NO_FLUSH);
      bytes.remove_prefix(piece.size());
    }
  }
  void finish() override {
    compress({}, Z_FINISH);
    file_->finish();
  }

 private:
  void compress(std::string_view piece, int flush) {
    state_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(piece.data()));  // zlib does not write there
    state_.avail_in = static_cast<uInt>(piece.size());
    do {
      state_.next_out = reinterpret_cast<Bytef*>(chunk_.data());
      state_.avail_out = static_cast<uInt>(chunk_.size());
      const int result = deflate(&state_, flush);
      EBB_CHECK(result != Z_STREAM_ERROR);
      file_->write(std::string_view(chunk_.data(), chunk_.size() - state_.avail_out));
    } while (state_.avail_out == 0);
  }

  std::unique_ptr<ByteSink> file_;
  z_stream state_{};
  std::array<char, kChunkBytes> chunk_{};
};

class ZstdSink : public ByteSink {
 public:
  explicit ZstdSink(std::unique_ptr<ByteSink> file) : file_(std::move(file)), state_(ZSTD_createCCtx(), ZSTD_freeCCtx) {
    EBB_CHECK(state_ != nullptr);
    EBB_CHECK(!ZSTD_isError(ZSTD_CCtx_setParameter(state_.get(), ZSTD_c_checksumFlag, 1)));
  }

  void write(std::string_view bytes) override { compress(bytes, ZSTD_e_continue); }
  void finish() override {
    compress({}, ZSTD_e_end);
    file_->finish();
  }

 private:
  void compress(std::string_view bytes, ZSTD_EndDirective directive) {
    ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
    while (true) {
      ZSTD_outBuffer out{chunk_.data(), chunk_.size(), 0};
      const std::size_t left = ZSTD_compressStream2(state_.get(), &out, &in, directive);
      EBB_CHECK(!ZSTD_isError(left));
      file_->write(std::string_view(chunk_.data(), out.pos));
      if (directive == ZSTD_e_end ? left == 0 : in.pos == in.size) return;
    }
  }

  std::unique_ptr<ByteSink> file_;
  std::unique_ptr<ZSTD_CCtx, std::size_t (*)(ZSTD_CCtx*)> state_;
  std::array<char, kChunkBytes> chunk_{};
};

}  // namespace

std::unique_ptr<ByteSink> open_sink(const std::string& path) {
  auto file = std::make_unique<FileSink>(path);
  if (path.ends_with(".gz")) return std::make_unique<GzipSink>(std::move(file));
  if (path.ends_with(".zst")) return std::make_unique<ZstdSink>(std::move(file));
  return file;
}

}  // namespace ebb
