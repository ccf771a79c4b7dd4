// Random numbers: Philox4x32-10 (Salmon et al., SC'11, section 4), one counter for every four 32-bit words, so that
// any element can be computed on its own and no number of threads changes the result.
#include <array>
#include <cmath>
#include <cstring>
#include <numbers>

#include "array/ops/operands.h"
#include "array/pass/executor.h"

namespace ebb {
namespace {

constexpr std::int64_t kTaskCounters = 1 << 14;

using Words = std::array<std::uint32_t, 4>;

Words philox(std::uint64_t counter, std::uint64_t stream, std::uint64_t seed) {
  Words c{static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32),
          static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)};
  auto k0 = static_cast<std::uint32_t>(seed), k1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * c[0], b = std::uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<std::uint32_t>(b >> 32) ^ c[1] ^ k0, static_cast<std::uint32_t>(b),
         static_cast<std::uint32_t>(a >> 32) ^ c[3] ^ k1, static_cast<std::uint32_t>(a)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return c;
}

// [0, 1): 24 bits for f32; 53 of two words for f64.
float unit_f32(std::uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }
double unit_f64(std::uint32_t high, std::uint32_t low) {
  return static_cast<double>((std::uint64_t{high} << 32 | low) >> 11) * 0x1p-53;
}

// Box and Muller's transform of two uniform numbers; 1 - u keeps the logarithm finite.
template <typename T>
std::array<T, 2> gaussian(T u, T v) {
  const T radius = std::sqrt(T{-2} * std::log(T{1} - u));
  const T angle = T{2} * std::numbers::pi_v<T> * v;
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

// Each counter makes kPer elements: make(words, out).
template <typename T, std::int64_t kPer, typename Make>
Array generate_here(const char* who, const Dims& shape, DType dtype, std::uint64_t seed, std::uint64_t stream,
                    const Make& make) {
  const auto info = array::intern(who, dtype_of<T>(), shape);
  const auto node = array::new_memory(info);
  T* const out = static_cast<T*>(node->storage->data);
  const std::int64_t counters = (info->count + kPer - 1) / kPer;
  array::run_tasks((counters + kTaskCounters - 1) / kTaskCounters, [&](std::int64_t task) {
    const std::int64_t end = std::min(counters, (task + 1) * kTaskCounters);
    for (std::int64_t c = task * kTaskCounters; c < end; ++c) {
      T values[kPer];
      make(philox(static_cast<std::uint64_t>(c), stream, seed), values);
      const std::int64_t left = std::min(kPer, info->count - c * kPer);
      for (std::int64_t i = 0; i < left; ++i) out[c * kPer + i] = values[i];
    }
  });
  return array::wrap(node).astype(dtype);
}

template <typename T, std::int64_t kPer, typename Make>
Array generate(const char* who, const Dims& shape, DType dtype, std::uint64_t seed, std::uint64_t stream,
               const Make& make) {
  return array::run_on_host([&] { return generate_here<T, kPer>(who, shape, dtype, seed, stream, make); });
}

void require_float(const char* who, DType dtype) {
  if (!is_float(dtype)) array::invalid(who, std::string("needs a floating type, not ") + name(dtype));
}

}  // namespace

Array uniform(const Dims& shape, std::uint64_t seed, std::uint64_t stream, DType dtype) {
  require_float("uniform", dtype);
  if (dtype == DType::kF64) {
    return generate<double, 2>("uniform", shape, dtype, seed, stream, [](const Words& w, double* out) {
      out[0] = unit_f64(w[0], w[1]);
      out[1] = unit_f64(w[2], w[3]);
    });
  }
  return generate<float, 4>("uniform", shape, dtype, seed, stream, [dtype](const Words& w, float* out) {
    // Fewer bits for the narrow types: rounding must not give 1.
    const std::uint32_t mask = dtype == DType::kF16 ? 0xFFE00000u : dtype == DType::kBF16 ? 0xFF000000u : ~0u;
    for (int i = 0; i < 4; ++i) out[i] = unit_f32(w[i] & mask);
  });
}

Array normal(const Dims& shape, std::uint64_t seed, std::uint64_t stream, DType dtype) {
  require_float("normal", dtype);
  if (dtype == DType::kF64) {
    return generate<double, 2>("normal", shape, dtype, seed, stream, [](const Words& w, double* out) {
      const auto pair = gaussian(unit_f64(w[0], w[1]), unit_f64(w[2], w[3]));
      out[0] = pair[0];
      out[1] = pair[1];
    });
  }
  return generate<float, 4>("normal", shape, dtype, seed, stream, [](const Words& w, float* out) {
    for (int i = 0; i < 4; i += 2) {
      const auto pair = gaussian(unit_f32(w[i]), unit_f32(w[i + 1]));
      out[i] = pair[0];
      out[i + 1] = pair[1];
    }
  });
}

Array random_integers(std::int64_t low, std::int64_t high, const Dims& shape, std::uint64_t seed, std::uint64_t stream,
                      DType dtype) {
  if (low >= high) array::invalid("random_integers", "low must be less than high");
  if (!is_integer(dtype)) array::invalid("random_integers", "needs an integer type");
  const std::uint64_t range = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  return generate<std::int64_t, 2>("random_integers", shape, dtype, seed, stream,
                                   [low, range](const Words& w, std::int64_t* out) {
                                     for (int i = 0; i < 2; ++i) {  // the high half of a 128-bit product
                                       const std::uint64_t bits = std::uint64_t{w[2 * i]} << 32 | w[2 * i + 1];
                                       __extension__ using Wide = unsigned __int128;
                                       const auto scaled = static_cast<std::uint64_t>(Wide{bits} * range >> 64);
                                       out[i] = static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + scaled);
                                     }
                                   });
}

}  // namespace ebb
