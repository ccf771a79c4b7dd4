// A chain of convolutions, 3 x 3 with four channels and a rectifier, over many images; what each layer makes is kept,
// as training needs it. Every layer reads what the one before has written, and overwrites its own.
#include "programs.h"

namespace ebb::bench {
namespace {

constexpr std::size_t kSide = 256;
constexpr std::size_t kChannels = 4;
constexpr std::size_t kImage = kChannels * kSide * kSide;  // floats: 1 MiB
constexpr std::size_t kBatch = kChunk / kImage;
constexpr std::size_t kLayers = 3;

class Convolution final : public Program {
 public:
  Convolution(const Source& source, std::size_t bytes) {
    const std::size_t count = bytes / sizeof(float) / (kLayers + 1) / kChunk * kChunk;
    for (std::size_t i = 0; i <= kLayers; ++i) layers_.push_back(std::make_unique<Floats>(source, count));
    for (std::size_t i = 0; i < sizeof weights_ / sizeof(float); ++i) weights_[i] = 0.3f * noise(i);
  }

  // The layers exist from an iteration before; their content is overwritten.
  void prepare(Stream& stream) override {
    for (const auto& layer : layers_) fill(stream, *layer, 1);
  }

  void iterate(Stream& stream) override {
    for (std::size_t layer = 0; layer < kLayers; ++layer) {
      const Floats& from = *layers_[layer];
      const Floats& to = *layers_[layer + 1];
      for (std::size_t at = 0; at < from.count(); at += kChunk) {
        const float* const x = from.data() + at;
        float* const y = to.data() + at;
        stream.launch("convolve", {reads(x, kChunk, from.data()), overwrites(y, kChunk, to.data())}, [=, this] {
          parallel_for(kBatch * kChannels, 1, [=, this](std::size_t begin, std::size_t end) {
            for (std::size_t i = begin; i < end; ++i) {
              const std::size_t image = i / kChannels * kImage;
              convolve(x + image, y + image + i % kChannels * kSide * kSide, weights_ + i % kChannels * 9 * kChannels);
            }
          });
        });
      }
    }
  }

  std::vector<Bytes> content() override {
    std::vector<Bytes> all;
    for (const auto& layer : layers_) all.push_back(layer->bytes());
    return all;
  }

 private:
  // One channel of one image; the border stays 0.
  static void convolve(const float* x, float* y, const float* weights) {
    std::fill(y, y + kSide * kSide, 0.0f);
    for (std::size_t row = 1; row + 1 < kSide; ++row) {
      float* const to = y + row * kSide;
      for (std::size_t channel = 0; channel < kChannels; ++channel) {
        const float* const from = x + channel * kSide * kSide + row * kSide;
        const float* const w = weights + channel * 9;
        for (std::size_t i = 1; i + 1 < kSide; ++i) {
          float sum = to[i];
          for (std::size_t k = 0; k < 3; ++k) {
            const float* const line = from + k * kSide - kSide;
            sum += w[3 * k] * line[i - 1] + w[3 * k + 1] * line[i] + w[3 * k + 2] * line[i + 1];
          }
          to[i] = sum;
        }
      }
      for (std::size_t i = 1; i + 1 < kSide; ++i) to[i] = std::max(to[i], 0.0f);
    }
  }

  std::vector<std::unique_ptr<Floats>> layers_;
  float weights_[kChannels * kChannels * 9];
};

}  // namespace

std::unique_ptr<Program> make_convolution(const Source& source, std::size_t bytes) {
  return std::make_unique<Convolution>(source, bytes);
}

}  // namespace ebb::bench
