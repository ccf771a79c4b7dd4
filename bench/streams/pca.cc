// Principal components: one step of the power iteration for several of them, V <- Xt (X V), on a matrix larger than
// memory, by rows. The matrix is read once.
#include "programs.h"

namespace ebb::bench {
namespace {

constexpr std::size_t kColumns = 1024;
constexpr std::size_t kRows = kChunk / kColumns;  // of a launch
constexpr std::size_t kComponents = 8;
constexpr std::size_t kGrain = 64;  // rows

class Pca final : public Program {
 public:
  Pca(const Source& source, std::size_t bytes)
      : x_(source, bytes / sizeof(float) / kChunk * kChunk),
        v_(kComponents * kColumns),
        parts_(kRows / kGrain * v_.size()) {
    for (std::size_t i = 0; i < v_.size(); ++i) v_[i] = noise(i);
  }

  void prepare(Stream& stream) override { fill(stream, x_, 1); }

  void iterate(Stream& stream) override {
    for (std::size_t at = 0; at < x_.count(); at += kChunk) {
      const float* const x = x_.data() + at;
      const float* const v = v_.data();
      float* const parts = parts_.data();
      const Use uses[] = {reads(x, kChunk, x_.data()), reads(v, v_.size()), updates(parts, parts_.size())};
      stream.launch("power step", uses, [=] {
        parallel_for(kRows, kGrain, [=](std::size_t begin, std::size_t end) {
          float* const sums = parts + begin / kGrain * kComponents * kColumns;
          for (std::size_t row = begin; row < end; ++row) add_row(x + row * kColumns, v, sums);
        });
      });
    }
  }

  std::vector<Bytes> content() override { return {x_.bytes(), bytes_of(parts_)}; }

 private:
  static void add_row(const float* x, const float* v, float* sums) {
    for (std::size_t k = 0; k < kComponents; ++k) {
      float product = 0;
      for (std::size_t i = 0; i < kColumns; ++i) product += x[i] * v[k * kColumns + i];
      for (std::size_t i = 0; i < kColumns; ++i) sums[k * kColumns + i] += product * x[i];
    }
  }

  Floats x_;
  std::vector<float> v_;
  std::vector<float> parts_;  // sums of the rows at this place in every launch
};

}  // namespace

std::unique_ptr<Program> make_pca(const Source& source, std::size_t bytes) {
  return std::make_unique<Pca>(source, bytes);
}

}  // namespace ebb::bench
