// A training step of a deep network of square layers: forward, backward, and Adam (Kingma and Ba, ICLR 2015) layer by
// layer. Weights, gradients and both moments are larger than memory; activations are small.
#include <cmath>

#include "programs.h"

namespace ebb::bench {
namespace {

constexpr std::size_t kWidth = 1024;
constexpr std::size_t kWeights = kWidth * kWidth;  // floats of a layer: 4 MiB
constexpr std::size_t kBatch = 16;
constexpr std::size_t kArrays = 4;

// y = relu(x w), for some of the columns.
void forward(const float* x, const float* w, float* y, std::size_t begin, std::size_t end) {
  for (std::size_t n = 0; n < kBatch; ++n) std::fill(y + n * kWidth + begin, y + n * kWidth + end, 0.0f);
  for (std::size_t i = 0; i < kWidth; ++i) {
    for (std::size_t n = 0; n < kBatch; ++n) {
      const float factor = x[n * kWidth + i];
      for (std::size_t j = begin; j < end; ++j) y[n * kWidth + j] += factor * w[i * kWidth + j];
    }
  }
  for (std::size_t n = 0; n < kBatch; ++n) {
    for (std::size_t j = begin; j < end; ++j) y[n * kWidth + j] = std::max(y[n * kWidth + j], 0.0f);
  }
}

// For some of the rows of w: its gradient, and what goes back to the layer before.
void backward(const float* x, const float* w, const float* dy, float* dw, float* dx, std::size_t begin,
              std::size_t end) {
  for (std::size_t i = begin; i < end; ++i) {
    float* const row = dw + i * kWidth;
    std::fill(row, row + kWidth, 0.0f);
    for (std::size_t n = 0; n < kBatch; ++n) {
      const float factor = x[n * kWidth + i];
      float sum = 0;
      for (std::size_t j = 0; j < kWidth; ++j) {
        row[j] += factor * dy[n * kWidth + j];
        sum += w[i * kWidth + j] * dy[n * kWidth + j];
      }
      dx[n * kWidth + i] = factor > 0 ? sum : 0;
    }
  }
}

void adam(float* w, float* m, float* v, const float* dw, std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i) {
    m[i] = 0.9f * m[i] + 0.1f * dw[i];
    v[i] = 0.999f * std::abs(v[i]) + 0.001f * dw[i] * dw[i];
    w[i] -= 0.001f * m[i] / (std::sqrt(v[i]) + 1e-8f);
  }
}

class Network final : public Program {
 public:
  Network(const Source& source, std::size_t bytes) {
    const std::size_t layers = std::max<std::size_t>(bytes / sizeof(float) / kArrays / kWeights, 1);
    for (std::size_t i = 0; i < layers; ++i) {
      for (auto* array : {&w_, &dw_, &m_, &v_}) array->push_back(std::make_unique<Floats>(source, kWeights));
    }
    x_.assign(layers + 1, std::vector<float>(kBatch * kWidth));
    dx_ = x_;
    for (std::size_t i = 0; i < kBatch * kWidth; ++i) {
      x_.front()[i] = noise(i);
      dx_.back()[i] = 0.01f * noise(i + 7);
    }
  }

  void prepare(Stream& stream) override {
    for (std::size_t i = 0; i < w_.size(); ++i) {
      fill(stream, *w_[i], 0.07f);
      for (const Floats* array : {dw_[i].get(), m_[i].get(), v_[i].get()}) fill(stream, *array, 0.01f);
    }
  }

  void iterate(Stream& stream) override {
    for (std::size_t i = 0; i < w_.size(); ++i) {
      const float* const x = x_[i].data();
      const float* const w = w_[i]->data();
      float* const y = x_[i + 1].data();
      const Use uses[] = {reads(w, kWeights), reads(x, kBatch * kWidth), overwrites(y, kBatch * kWidth)};
      stream.launch("forward", uses, [=] {
        parallel_for(kWidth, 128, [=](std::size_t begin, std::size_t end) { forward(x, w, y, begin, end); });
      });
    }
    for (std::size_t i = w_.size(); i-- > 0;) {
      const float* const x = x_[i].data();
      const float* const dy = dx_[i + 1].data();
      float* const w = w_[i]->data();
      float* const dw = dw_[i]->data();
      float* const dx = dx_[i].data();
      const Use back[] = {reads(w, kWeights), reads(x, kBatch * kWidth), reads(dy, kBatch * kWidth),
                          overwrites(dw, kWeights), overwrites(dx, kBatch * kWidth)};
      stream.launch("backward", back, [=] {
        parallel_for(kWidth, 64, [=](std::size_t begin, std::size_t end) { backward(x, w, dy, dw, dx, begin, end); });
      });
      float* const m = m_[i]->data();
      float* const v = v_[i]->data();
      const Use update[] = {updates(w, kWeights), updates(m, kWeights), updates(v, kWeights), reads(dw, kWeights)};
      stream.launch("adam", update, [=] {
        parallel_for(kWeights, 65536, [=](std::size_t begin, std::size_t end) { adam(w, m, v, dw, begin, end); });
      });
    }
  }

  std::vector<Bytes> content() override {
    std::vector<Bytes> all;
    for (const auto* arrays : {&w_, &dw_, &m_, &v_}) {
      for (const auto& array : *arrays) all.push_back(array->bytes());
    }
    for (const auto* small : {&x_, &dx_}) {
      for (const auto& each : *small) all.push_back(bytes_of(each));
    }
    return all;
  }

 private:
  std::vector<std::unique_ptr<Floats>> w_, dw_, m_, v_;
  std::vector<std::vector<float>> x_, dx_;
};

}  // namespace

std::unique_ptr<Program> make_network(const Source& source, std::size_t bytes) {
  return std::make_unique<Network>(source, bytes);
}

}  // namespace ebb::bench
