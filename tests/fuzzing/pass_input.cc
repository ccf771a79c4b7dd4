// libFuzzer: any bytes as what an earlier run did with files, and a program that does what they say with the first
// blocks of those files. Not believed, or planned by; whatever they claim, the program has its own bytes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "runtime/passes/pass_store.h"
#include "sim/simulator.h"

namespace {

constexpr std::uint64_t kBlockBytes = 4096;
constexpr std::uint32_t kFiles = 3, kFileBlocks = 12;
constexpr std::size_t kLaunchesMax = 64;

ebb::SimDriver::Config machine() {
  ebb::SimDriver::Config config;
  config.block_bytes = kBlockBytes;
  config.frames = 24;
  config.blocks = 256;
  config.extents = 64;
  config.policy = "foresight";
  return config;
}

class Program {
 public:
  Program() : driver_(machine()) {
    for (std::uint32_t file = 0; file < kFiles; ++file) {
      const ebb::FilePlace place{static_cast<std::int32_t>(file), 0, 0};
      if (driver_.map(place, kFileBlocks * kBlockBytes, first_[file]) != ebb::Status::kOk) std::abort();
    }
  }

  void run(const ebb::FilePass& pass) {
    driver_.core().launches().earlier_run().expect(pass);
    for (int iteration = 0; iteration < 2; ++iteration) {
      for (std::size_t i = 0; i < std::min(pass.launches.size(), kLaunchesMax); ++i) launch(pass, pass.launches[i]);
    }
    driver_.validate();
  }

 private:
  void launch(const ebb::FilePass& pass, const ebb::FilePass::Launch& launch) {
    std::vector<ebb::Core::Range> ranges;
    for (std::uint32_t use = launch.first_use; use < launch.first_use + launch.uses && ranges.size() < 4; ++use) {
      const ebb::FilePass::Use& part = pass.uses[use];
      const std::uint64_t all = kFileBlocks * kBlockBytes;
      const bool here = static_cast<std::uint32_t>(part.file) < kFiles && part.bytes > 0 && part.bytes <= all &&
                        part.offset <= all - part.bytes;
      if (here) ranges.push_back({first_[static_cast<std::size_t>(part.file)] + part.offset, part.bytes});
    }
    if (ranges.empty()) return;
    const std::uint64_t ticket = driver_.announce(launch.op, ranges);
    for (const ebb::Core::Range& range : ranges) {
      const ebb::BlockRange blocks = driver_.core().blocks_of(range.offset, range.bytes);
      for (ebb::BlockIndex i = blocks.first; i != blocks.end(); i = i.next()) check(i);
    }
    driver_.core().launches().retire(ticket);
    driver_.core().launches().ran(launch.ns);
  }

  void check(ebb::BlockIndex block) {
    if (driver_.touch(block) != ebb::SimDriver::Touch::kPresent) std::abort();
    std::vector<std::byte> expected(kBlockBytes);
    ebb::SimFlash::fill_from_file(driver_.core().files().place_of(block), expected);
    if (!std::ranges::equal(driver_.memory().bytes(block), expected)) std::abort();
  }

  ebb::SimDriver driver_;
  std::uint64_t first_[kFiles] = {};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto stored = ebb::parse_pass(std::string(reinterpret_cast<const char*>(data), size));
  if (stored) Program().run(stored->pass);
  return 0;
}
