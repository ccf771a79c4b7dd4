// A network of two layers, trained with plain arrays on points four times as large as memory. A point belongs to the
// class if its first two coordinates have the same sign, which no single layer can tell.
//
//   network MEMORY FLASH_DIRECTORY
#include <cstdio>
#include <exception>
#include <vector>

#include "ebb/array.h"

namespace {

constexpr std::int64_t kInputs = 16;
constexpr std::int64_t kHidden = 64;
constexpr std::int64_t kBlockRows = 128 * 1024;  // 8 MiB of points
constexpr std::int64_t kBatch = 8192;
constexpr int kEpochs = 2;
constexpr double kRate = 0.5, kMomentum = 0.9;

struct Parameter {
  ebb::Array value, velocity;

  explicit Parameter(ebb::Array start) : value(std::move(start)), velocity(ebb::zeros(value.shape())) {}

  // Evaluated at once: an expression would keep the points that it was computed from.
  void descend(const ebb::Array& gradient) {
    velocity = (velocity * kMomentum - gradient * kRate).evaluate();
    value = (value + velocity).evaluate();
  }
};

class Network {
 public:
  // Returns the accuracy on the batch before the step.
  double train(const ebb::Array& x, const ebb::Array& y) {
    const double rows = static_cast<double>(x.size(0));
    const ebb::Array sums = (ebb::matmul(x, w1_.value) + b1_.value).evaluate();
    const ebb::Array hidden = ebb::relu(sums).evaluate();
    const ebb::Array guess = ebb::sigmoid(ebb::matmul(hidden, w2_.value) + b2_.value).evaluate();
    const ebb::Array error = ((guess - y) / rows).evaluate();  // the derivative of the mean cross entropy
    const ebb::Array passed = ebb::where(sums > 0.0, ebb::matmul(error, w2_.value.transpose()), 0.0).evaluate();
    w2_.descend(ebb::matmul(hidden.transpose(), error));
    b2_.descend(ebb::sum(error, {0}));
    w1_.descend(ebb::matmul(x.transpose(), passed));
    b1_.descend(ebb::sum(passed, {0}));
    return ebb::sum(ebb::equal(guess > 0.5, y > 0.5).astype(ebb::DType::kF32)).item() / rows;
  }

 private:
  Parameter w1_{(ebb::normal({kInputs, kHidden}, 1, 0) * 0.35).evaluate()}, b1_{ebb::zeros({kHidden})};
  Parameter w2_{(ebb::normal({kHidden, 1}, 1, 1) * 0.18).evaluate()}, b2_{ebb::zeros({1})};
};

ebb::Array classes(const ebb::Array& x) {
  const ebb::Array product = x.slice(1, {0, 1, {}}) * x.slice(1, {1, 2, {}});
  return (product > 0.0).astype(ebb::DType::kF32).evaluate();
}

int run(const char* memory, const char* flash) {
  ebb::Options options;
  options.memory = ebb::parse_size(memory);
  options.flash = flash;
  const std::shared_ptr<ebb::Runtime> runtime = ebb::Runtime::open(options);
  ebb::use_runtime(runtime);
  const std::int64_t block_bytes = kBlockRows * kInputs * static_cast<std::int64_t>(sizeof(float));
  const std::int64_t blocks = 4 * static_cast<std::int64_t>(options.memory) / block_bytes;
  std::vector<ebb::Array> points;
  for (std::int64_t k = 0; k < blocks; ++k) {
    points.push_back(ebb::normal({kBlockRows, kInputs}, 2, static_cast<std::uint64_t>(k)).evaluate());
  }

  Network network;
  double accuracy = 0;  // over the last epoch's last block
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    for (const ebb::Array& block : points) {
      accuracy = 0;
      for (std::int64_t row = 0; row < kBlockRows; row += kBatch) {
        const ebb::Array x = block.slice(0, {row, row + kBatch, {}});  // a view
        accuracy += network.train(x, classes(x)) * static_cast<double>(kBatch) / static_cast<double>(kBlockRows);
      }
    }
  }
  const ebb::Stats stats = runtime->stats();
  std::printf("%s of points in %s of memory: %.1f %% right, %s read from flash\n",
              ebb::format_size(static_cast<std::size_t>(blocks * block_bytes)).c_str(),
              ebb::format_size(stats.budget_bytes).c_str(), 100 * accuracy,
              ebb::format_size(stats.fetched_bytes).c_str());
  return accuracy > 0.95 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: network MEMORY FLASH_DIRECTORY, as in: network 64MiB /tmp\n");
    return 2;
  }
  try {
    return run(argv[1], argv[2]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "network: %s\n", error.what());
    return 1;
  }
}
