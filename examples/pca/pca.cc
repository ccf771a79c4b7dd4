// The first principal component of a matrix four times as large as memory, by power iteration: v <- Xt (X v), scaled to
// length 1. The rows are noise around multiples of one direction, so the answer is known.
//
//   pca MEMORY FLASH_DIRECTORY
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <vector>

#include "ebb/stream.h"

namespace {

constexpr std::size_t kColumns = 512;
constexpr std::size_t kRows = 4096;  // of a launch: 8 MiB
constexpr std::size_t kGrain = 256;  // rows of a part
constexpr int kIterations = 4;

float noise(std::size_t i) {
  const std::uint32_t x = (static_cast<std::uint32_t>(i) * 2654435761u) ^ 0x9e3779b9u;
  return static_cast<float>((x ^ (x >> 15)) * 2246822519u >> 8) / 16777216.0f - 0.5f;
}

float direction(std::size_t column) { return std::sin(static_cast<float>(column) * 0.1f); }

void make_rows(float* x, std::size_t first, std::size_t begin, std::size_t end) {
  for (std::size_t row = begin; row < end; ++row) {
    const float scale = 4 * noise(first + row);
    for (std::size_t i = 0; i < kColumns; ++i) {
      x[row * kColumns + i] = scale * direction(i) + noise((first + row) * kColumns + i);
    }
  }
}

// Adds Xt (X v) of some rows.
void add_rows(const float* x, const float* v, float* sums, std::size_t begin, std::size_t end) {
  for (std::size_t row = begin; row < end; ++row) {
    const float* const at = x + row * kColumns;
    float product = 0;
    for (std::size_t i = 0; i < kColumns; ++i) product += at[i] * v[i];
    for (std::size_t i = 0; i < kColumns; ++i) sums[i] += product * at[i];
  }
}

int run(const char* memory, const char* flash) {
  ebb::Options options;
  options.memory = ebb::parse_size(memory);
  options.flash = flash;
  const auto runtime = ebb::Runtime::open(options);
  const std::size_t launches = 4 * options.memory / (kRows * kColumns * sizeof(float));
  const std::size_t count = launches * kRows * kColumns;
  auto* const x = static_cast<float*>(runtime->allocate(count * sizeof(float)));

  ebb::Stream stream = runtime->stream();
  for (std::size_t k = 0; k < launches; ++k) {
    float* const part = x + k * kRows * kColumns;
    stream.launch("make", {ebb::overwrites(part, kRows * kColumns, x)}, [=] {
      ebb::parallel_for(kRows, kGrain,
                        [=](std::size_t begin, std::size_t end) { make_rows(part, k * kRows, begin, end); });
    });
  }

  std::vector<float> v(kColumns, 1.0f);
  std::vector<float> sums(kRows / kGrain * kColumns);
  for (int iteration = 0; iteration < kIterations; ++iteration) {
    for (std::size_t k = 0; k < launches; ++k) {
      const float* const part = x + k * kRows * kColumns;
      const ebb::Use uses[] = {ebb::reads(part, kRows * kColumns, x), ebb::reads(v.data(), v.size()),
                               ebb::updates(sums.data(), sums.size())};
      stream.launch("power step", uses, [&, part] {
        ebb::parallel_for(kRows, kGrain, [&, part](std::size_t begin, std::size_t end) {
          add_rows(part, v.data(), sums.data() + begin / kGrain * kColumns, begin, end);
        });
      });
    }
    stream.launch("scale", {ebb::updates(v.data(), v.size()), ebb::updates(sums.data(), sums.size())}, [&] {
      double length = 0;
      for (std::size_t i = 0; i < kColumns; ++i) {
        double sum = 0;
        for (std::size_t at = i; at < sums.size(); at += kColumns) sum += sums[at];
        v[i] = static_cast<float>(sum);
        length += sum * sum;
      }
      for (float& value : v) value = static_cast<float>(value / std::sqrt(length));
      std::fill(sums.begin(), sums.end(), 0.0f);
    });
  }
  stream.synchronize();

  double product = 0, length = 0;
  for (std::size_t i = 0; i < kColumns; ++i) {
    product += v[i] * direction(i);
    length += direction(i) * direction(i);
  }
  const double cosine = std::abs(product) / std::sqrt(length);
  const ebb::Stats stats = runtime->stats();
  std::printf("%s of data in %s of memory: cosine with the known component %.6f, %s read from flash\n",
              ebb::format_size(count * sizeof(float)).c_str(), ebb::format_size(stats.budget_bytes).c_str(), cosine,
              ebb::format_size(stats.fetched_bytes).c_str());
  runtime->deallocate(x);
  return cosine > 0.999 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: pca MEMORY FLASH_DIRECTORY, as in: pca 64MiB /tmp\n");
    return 2;
  }
  try {
    return run(argv[1], argv[2]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "pca: %s\n", error.what());
    return 1;
  }
}
