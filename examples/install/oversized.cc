// Four times as much data as memory: written, left to Ebbtide, read again and checked. Exits with 1 if a word of it is
// wrong, or if all of it stayed in memory.
//
//   oversized MEMORY FLASH_DIRECTORY
#include <cstdint>
#include <cstdio>
#include <exception>

#include "ebb/runtime.h"

namespace {

int run(const char* memory, const char* flash) {
  ebb::Options options;
  options.memory = ebb::parse_size(memory);
  options.flash = flash;
  const auto runtime = ebb::Runtime::open(options);

  const std::size_t count = 4 * options.memory / sizeof(std::uint64_t);
  auto* const words = static_cast<std::uint64_t*>(runtime->allocate(count * sizeof(std::uint64_t)));
  for (std::size_t i = 0; i < count; ++i) words[i] = i * i;
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < count; ++i) wrong += words[i] != i * i;
  runtime->deallocate(words);

  const ebb::Stats stats = runtime->stats();
  std::printf("%zu words, %zu wrong; %llu bytes went to flash, %llu came back\n", count, wrong,
              static_cast<unsigned long long>(stats.evicted_bytes),
              static_cast<unsigned long long>(stats.fetched_bytes));
  return wrong == 0 && stats.evicted_bytes > 0 && stats.fetched_bytes > 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: oversized MEMORY FLASH_DIRECTORY, as in: oversized 64MiB /tmp\n");
    return 2;
  }
  try {
    return run(argv[1], argv[2]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "oversized: %s\n", error.what());
    return 1;
  }
}
