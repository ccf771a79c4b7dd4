// Encrypted blocks come back until the very end of a process: after libcrypto's own handlers at exit, too.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <memory>

#include "base/test/in_a_child.h"
#include "ebb/runtime.h"

namespace ebb {
namespace {

constexpr unsigned kSecondsMax = 60;
constexpr std::size_t kWords = 64 * kMiB / 8;  // four times the budget
constexpr int kWrong = 9;

std::uint64_t* g_words = nullptr;
const std::shared_ptr<Runtime>* g_runtime = nullptr;  // never destroyed

// Registered before libcrypto is loaded, and so called after what it has registered.
void last() {
  for (std::size_t round = 0; round < 2; ++round) {
    for (std::size_t i = 0; i < kWords; ++i) {
      if (g_words[i] != i * 7 + round) ::_exit(kWrong);
      g_words[i] = i * 7 + round + 1;
    }
  }
  ::_exit(0);
}

TEST(EncryptedEnd, BlocksMoveAfterTheHandlersOfLibcrypto) {
  expect_end(in_a_child(kSecondsMax, [] {
    std::atexit(last);
    Options options;
    options.memory = 16 * kMiB;
    options.flash_bytes = 256 * kMiB;
    options.block_bytes = 64 * kKiB;
    options.encrypt = true;
    try {
      g_runtime = new std::shared_ptr<Runtime>(Runtime::open(options));
    } catch (const Error&) {
      ::_exit(kSkip);
    }
    g_words = static_cast<std::uint64_t*>((*g_runtime)->allocate(kWords * 8));
    for (std::size_t i = 0; i < kWords; ++i) g_words[i] = i * 7;
    std::exit(kWrong);
    return kWrong;
  }));
}

}  // namespace
}  // namespace ebb
