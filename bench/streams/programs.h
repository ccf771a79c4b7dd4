// The programs of bench/streams.py: each works on data larger than memory, through a stream. What all its arrays hold
// at the end is compared block by block: the same bytes whatever holds them.
//
// A program first makes its data (not timed), then does one iteration (timed): the first, so nothing is known of it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ebb/stream.h"
#include "floats.h"

namespace ebb::bench {

class Program {
 public:
  virtual ~Program() = default;
  // Queues launches that make the data.
  virtual void prepare(Stream& stream) = 0;
  // Queues the launches of one iteration.
  virtual void iterate(Stream& stream) = 0;
  // All that it has read and written, after that is over.
  virtual std::vector<Bytes> content() = 0;
};

// `bytes`: of all its arrays together, about.
using Maker = std::unique_ptr<Program> (*)(const Source& source, std::size_t bytes);
std::unique_ptr<Program> make_network(const Source& source, std::size_t bytes);
std::unique_ptr<Program> make_convolution(const Source& source, std::size_t bytes);
std::unique_ptr<Program> make_reductions(const Source& source, std::size_t bytes);
std::unique_ptr<Program> make_transform(const Source& source, std::size_t bytes);
std::unique_ptr<Program> make_pca(const Source& source, std::size_t bytes);

// Numbers in [-1, 1) that depend on the position alone, and are not all the same to a checksum.
inline float noise(std::size_t i) {
  std::uint32_t x = static_cast<std::uint32_t>(i) * 2654435761u;
  x ^= x >> 15;
  x *= 2246822519u;
  x ^= x >> 13;
  return static_cast<float>(static_cast<std::int32_t>(x)) * (1.0f / 2147483648.0f);
}

inline constexpr std::size_t kChunk = 2 * 1024 * 1024;  // floats of one launch: 8 MiB

// Launches `fill` of an array in chunks.
inline void fill(Stream& stream, const Floats& to, float scale) {
  for (std::size_t at = 0; at < to.count(); at += kChunk) {
    float* const data = to.data() + at;
    const std::size_t count = std::min(kChunk, to.count() - at);
    stream.launch("fill", {overwrites(data, count, to.data())}, [=] {
      parallel_for(count, 65536, [=](std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; ++i) data[i] = scale * noise(at + i);
      });
    });
  }
}

}  // namespace ebb::bench
