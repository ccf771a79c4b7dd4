// Chooses the variant for this processor, once. The variants live in files compiled for their instruction set
// (digest/).
#include "base/digest.h"

#include <atomic>

#include "base/digest/lanes.h"

namespace ebb {
namespace internal {

Digest digest_portable(std::span<const std::byte> bytes, std::uint64_t seed, Lanes order) {
  return digest_in_lanes(bytes, seed, order);
}

}  // namespace internal
namespace {

using Function = Digest (*)(std::span<const std::byte>, std::uint64_t);

template <auto kVariant, internal::Lanes kOrder>
Digest in_order(std::span<const std::byte> bytes, std::uint64_t seed) {
  return kVariant(bytes, seed, kOrder);
}

template <internal::Lanes kOrder>
Function choose_in_order() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return in_order<internal::digest_avx512, kOrder>;
  if (__builtin_cpu_supports("avx2")) return in_order<internal::digest_avx2, kOrder>;
#endif
  return in_order<internal::digest_portable, kOrder>;
}

// By whose processors were measured: 0002.
Function choose() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_is("intel")) return choose_in_order<internal::Lanes::kInTurns>();
#endif
  return choose_in_order<internal::Lanes::kOneAfterTheOther>();
}

constinit std::atomic<Function> g_function{nullptr};
constinit std::atomic<std::uint64_t> g_seed{0};

}  // namespace

Digest digest(std::span<const std::byte> bytes) {
  // No static in here: a child of a fork would wait for a thread that was at its initialization.
  Function function = g_function.load(std::memory_order_relaxed);
  if (function == nullptr) g_function.store(function = choose(), std::memory_order_relaxed);
  return function(bytes, g_seed.load(std::memory_order_relaxed));
}

void seed_digests(std::uint64_t seed) {
  std::uint64_t none = 0;
  g_seed.compare_exchange_strong(none, seed, std::memory_order_relaxed);
}

}  // namespace ebb
