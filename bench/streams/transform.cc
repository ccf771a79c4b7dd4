// Streaming y = f(x): one array read, another one written, chunk by chunk, nothing used twice. What it can reach is
// what flash carries in both directions; bench/flash.py compares it with that.
#include "programs.h"

namespace ebb::bench {
namespace {

constexpr std::size_t kGrain = 65536;

class Transform final : public Program {
 public:
  Transform(const Source& source, std::size_t bytes)
      : x_(source, bytes / 2 / sizeof(float) / kChunk * kChunk), y_(source, x_.count()) {}

  void prepare(Stream& stream) override { fill(stream, x_, 1); }

  void iterate(Stream& stream) override {
    for (std::size_t at = 0; at < x_.count(); at += kChunk) {
      const float* const x = x_.data() + at;
      float* const y = y_.data() + at;
      stream.launch("transform", {reads(x, kChunk, x_.data()), overwrites(y, kChunk, y_.data())}, [=] {
        parallel_for(kChunk, kGrain, [=](std::size_t begin, std::size_t end) {
          for (std::size_t i = begin; i < end; ++i) y[i] = 3 * x[i] * x[i] + 2 * x[i] + 1;
        });
      });
    }
  }

  std::vector<Bytes> content() override { return {x_.bytes(), y_.bytes()}; }

 private:
  Floats x_, y_;
};

}  // namespace

std::unique_ptr<Program> make_transform(const Source& source, std::size_t bytes) {
  return std::make_unique<Transform>(source, bytes);
}

}  // namespace ebb::bench
