// Chooses the variant of XXH3 for this processor, once. The variants live in files compiled for their instruction set.
#define XXH_INLINE_ALL
#include "base/digest.h"

#include <xxhash.h>

#include <atomic>

namespace ebb {
namespace {

Digest digest_portable(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.low64, hash.high64};
}

using Function = Digest (*)(std::span<const std::byte>);

Function choose() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f")) return internal::digest_avx512;
  if (__builtin_cpu_supports("avx2")) return internal::digest_avx2;
#endif
  return digest_portable;
}

constinit std::atomic<Function> g_function{nullptr};

}  // namespace

Digest digest(std::span<const std::byte> bytes) {
  // No static in here: a child of a fork would wait for a thread that was at its initialization.
  Function function = g_function.load(std::memory_order_relaxed);
  if (function == nullptr) g_function.store(function = choose(), std::memory_order_relaxed);
  return function(bytes);
}

}  // namespace ebb
