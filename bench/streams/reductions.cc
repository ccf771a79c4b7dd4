// Streaming reductions: sum, sum of squares, largest, and the sum of exponentials, of one array, in one pass. Nothing
// is written: what is to be gained is reading ahead.
#include <cmath>

#include "programs.h"

namespace ebb::bench {
namespace {

constexpr std::size_t kGrain = 65536;

struct Sums {
  float sum = 0, squares = 0, most = -1e30f, exponentials = 0;
};

class Reductions final : public Program {
 public:
  Reductions(const Source& source, std::size_t bytes)
      : x_(source, bytes / sizeof(float) / kChunk * kChunk), parts_(x_.count() / kGrain) {}

  void prepare(Stream& stream) override { fill(stream, x_, 1); }

  void iterate(Stream& stream) override {
    for (std::size_t at = 0; at < x_.count(); at += kChunk) {
      const float* const x = x_.data() + at;
      Sums* const parts = parts_.data() + at / kGrain;
      stream.launch("reduce", {reads(x, kChunk, x_.data())}, [=] {
        parallel_for(kChunk, kGrain, [=](std::size_t begin, std::size_t end) {
          Sums sums;
          for (std::size_t i = begin; i < end; ++i) {
            sums.sum += x[i];
            sums.squares += x[i] * x[i];
            sums.most = std::max(sums.most, x[i]);
            sums.exponentials += std::exp(x[i]);
          }
          parts[begin / kGrain] = sums;
        });
      });
    }
  }

  std::vector<Bytes> content() override { return {x_.bytes(), bytes_of(parts_)}; }

 private:
  Floats x_;
  std::vector<Sums> parts_;
};

}  // namespace

std::unique_ptr<Program> make_reductions(const Source& source, std::size_t bytes) {
  return std::make_unique<Reductions>(source, bytes);
}

}  // namespace ebb::bench
