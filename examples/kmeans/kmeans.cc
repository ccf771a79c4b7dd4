// k-means (Lloyd 1982) on points four times as large as memory, which lie around known centres. One launch assigns a
// part of the points to the nearest centre and adds them up there; after a pass the sums give the new centres.
//
//   kmeans MEMORY FLASH_DIRECTORY
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <vector>

#include "ebb/stream.h"

namespace {

constexpr std::size_t kDimensions = 16;
constexpr std::size_t kCentres = 8;
constexpr std::size_t kPoints = 128 * 1024;  // of a launch: 8 MiB
constexpr std::size_t kGrain = 8192;         // points of a part
constexpr std::size_t kParts = kPoints / kGrain;
constexpr int kIterations = 4;

float noise(std::size_t i) {
  const std::uint32_t x = (static_cast<std::uint32_t>(i) * 2654435761u) ^ 0x9e3779b9u;
  return static_cast<float>((x ^ (x >> 15)) * 2246822519u >> 8) / 16777216.0f - 0.5f;
}

// The centres differ in their first dimensions, by far more than the points around them.
float centre(std::size_t k, std::size_t dimension) { return (k >> dimension & 1) != 0 ? 10.0f : 0.0f; }

void make_points(float* x, std::size_t first, std::size_t begin, std::size_t end) {
  for (std::size_t point = begin; point < end; ++point) {
    for (std::size_t i = 0; i < kDimensions; ++i) {
      const std::size_t at = point * kDimensions + i;
      x[at] = centre((first + point) % kCentres, i) + noise(first * kDimensions + at);
    }
  }
}

struct Sums {
  double sum[kCentres][kDimensions] = {};
  double count[kCentres] = {};
};

void add_points(const float* x, const std::vector<float>& centres, Sums& sums, std::size_t begin, std::size_t end) {
  for (std::size_t point = begin; point < end; ++point) {
    const float* const at = x + point * kDimensions;
    std::size_t nearest = 0;
    float least = 1e30f;
    for (std::size_t k = 0; k < kCentres; ++k) {
      float distance = 0;
      for (std::size_t i = 0; i < kDimensions; ++i) {
        const float difference = at[i] - centres[k * kDimensions + i];
        distance += difference * difference;
      }
      if (distance < least) {
        least = distance;
        nearest = k;
      }
    }
    for (std::size_t i = 0; i < kDimensions; ++i) sums.sum[nearest][i] += at[i];
    ++sums.count[nearest];
  }
}

// The means of what has been added up, which starts again.
void move_centres(std::vector<Sums>& parts, std::vector<float>& centres) {
  for (std::size_t k = 0; k < kCentres; ++k) {
    double count = 0;
    for (const Sums& part : parts) count += part.count[k];
    for (std::size_t i = 0; i < kDimensions && count > 0; ++i) {
      double sum = 0;
      for (const Sums& part : parts) sum += part.sum[k][i];
      centres[k * kDimensions + i] = static_cast<float>(sum / count);
    }
  }
  std::fill(parts.begin(), parts.end(), Sums{});
}

int run(const char* memory, const char* flash) {
  ebb::Options options;
  options.memory = ebb::parse_size(memory);
  options.flash = flash;
  const auto runtime = ebb::Runtime::open(options);
  const std::size_t launches = 4 * options.memory / (kPoints * kDimensions * sizeof(float));
  const std::size_t count = launches * kPoints * kDimensions;
  auto* const x = static_cast<float*>(runtime->allocate(count * sizeof(float)));

  ebb::Stream stream = runtime->stream();
  for (std::size_t k = 0; k < launches; ++k) {
    float* const part = x + k * kPoints * kDimensions;
    stream.launch("make", {ebb::overwrites(part, kPoints * kDimensions, x)}, [=] {
      ebb::parallel_for(kPoints, kGrain,
                        [=](std::size_t begin, std::size_t end) { make_points(part, k * kPoints, begin, end); });
    });
  }

  std::vector<float> centres(kCentres * kDimensions);
  for (std::size_t i = 0; i < centres.size(); ++i) {
    centres[i] = 0.6f * centre(i / kDimensions, i % kDimensions) + 3 * noise(i);  // a guess
  }
  std::vector<Sums> parts(kParts);
  for (int iteration = 0; iteration < kIterations; ++iteration) {
    for (std::size_t k = 0; k < launches; ++k) {
      const float* const part = x + k * kPoints * kDimensions;
      const ebb::Use uses[] = {ebb::reads(part, kPoints * kDimensions, x), ebb::reads(centres.data(), centres.size()),
                               ebb::updates(parts.data(), parts.size())};
      stream.launch("assign", uses, [&, part] {
        ebb::parallel_for(kPoints, kGrain, [&, part](std::size_t begin, std::size_t end) {
          add_points(part, centres, parts[begin / kGrain], begin, end);
        });
      });
    }
    stream.launch("move", {ebb::updates(parts.data(), parts.size()), ebb::updates(centres.data(), centres.size())},
                  [&] { move_centres(parts, centres); });
  }
  stream.synchronize();

  float error = 0;
  for (std::size_t i = 0; i < centres.size(); ++i) {
    error = std::max(error, std::abs(centres[i] - centre(i / kDimensions, i % kDimensions)));
  }
  const ebb::Stats stats = runtime->stats();
  std::printf("%s of points in %s of memory: centres found to %.4f, %s read from flash\n",
              ebb::format_size(count * sizeof(float)).c_str(), ebb::format_size(stats.budget_bytes).c_str(),
              static_cast<double>(error), ebb::format_size(stats.fetched_bytes).c_str());
  runtime->deallocate(x);
  return error < 0.05f ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: kmeans MEMORY FLASH_DIRECTORY, as in: kmeans 64MiB /tmp\n");
    return 2;
  }
  try {
    return run(argv[1], argv[2]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kmeans: %s\n", error.what());
    return 1;
  }
}
