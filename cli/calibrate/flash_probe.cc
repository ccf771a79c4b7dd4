// See flash_probe.h. Each worker transfers whole blocks at places that no other worker uses, until its time is over.
#include "calibrate/flash_probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "drivers/linux/flash_file.h"
#include "ebb/status.h"
#include "ebb/units.h"

namespace ebb::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kBlockBytes = 2 * kMiB;
constexpr std::size_t kAlignment = 4096;
constexpr std::uint64_t kFileBlocks = 256;  // 512 MiB: beyond the cache of most drives' controllers
constexpr int kWorkers = 4;                 // a direction
constexpr std::chrono::milliseconds kPhase{1000};

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};
using Block = std::unique_ptr<std::byte, Free>;

// Random bytes, since some disks and file systems compress.
Block make_block(std::uint64_t seed) {
  Block block(static_cast<std::byte*>(std::aligned_alloc(kAlignment, kBlockBytes)));
  if (!block) throw Error(Status::kNoMemory, "no memory for the buffers of the flash measurement");
  std::mt19937_64 random(seed);
  for (std::size_t at = 0; at < kBlockBytes; at += sizeof(std::uint64_t)) {
    const std::uint64_t word = random();
    std::memcpy(block.get() + at, &word, sizeof word);
  }
  return block;
}

class Phase {
 public:
  Phase(const FlashFile& file, std::vector<Block>& blocks) : file_(file), blocks_(blocks) {}

  // Runs the workers for the length of a phase; bytes a second of reads and of writes.
  std::pair<double, double> run(int readers, int writers) {
    const Clock::time_point start = Clock::now();
    std::vector<std::thread> threads;
    for (int i = 0; i < readers; ++i) threads.emplace_back([this, i, start] { work(i, false, start); });
    for (int i = 0; i < writers; ++i) threads.emplace_back([this, i, start] { work(kWorkers + i, true, start); });
    for (std::thread& thread : threads) thread.join();
    if (failed_) {
      throw Error(
          Status::kIoError,
          "a transfer failed while flash was measured; see the kernel's log, or name another disk with --flash");
    }
    return {static_cast<double>(bytes_[0]) / seconds_[0], static_cast<double>(bytes_[1]) / seconds_[1]};
  }

  // Writes every block once, so that reads find something.
  double fill() {
    const Clock::time_point start = Clock::now();
    std::atomic<std::uint64_t> next = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < kWorkers; ++i) {
      threads.emplace_back([this, i, &next] {
        for (std::uint64_t at = next++; at < kFileBlocks && !failed_; at = next++) transfer(i, true, at);
      });
    }
    for (std::thread& thread : threads) thread.join();
    if (failed_)
      throw Error(Status::kIoError, "flash cannot be written; see the kernel's log, or name another --flash");
    return static_cast<double>(kFileBlocks * kBlockBytes) / std::chrono::duration<double>(Clock::now() - start).count();
  }

 private:
  void transfer(int worker, bool write, std::uint64_t block) {
    const std::span<std::byte> buffer(blocks_[static_cast<std::size_t>(worker)].get(), kBlockBytes);
    const std::uint64_t offset = block * kBlockBytes;
    const Status status = write ? file_.write(offset, buffer) : file_.read(offset, buffer);
    if (status != Status::kOk) failed_ = true;
  }

  // A stride that is odd visits all blocks of a worker's share, not in the order in which they lie.
  void work(int worker, bool write, Clock::time_point start) {
    const std::uint64_t share = kFileBlocks / (2 * kWorkers);
    const std::uint64_t first = static_cast<std::uint64_t>(worker) * share;
    std::uint64_t count = 0;
    while (!failed_ && Clock::now() - start < kPhase) transfer(worker, write, first + (17 * count++) % share);
    const double taken = std::chrono::duration<double>(Clock::now() - start).count();
    const std::size_t way = write ? 1 : 0;
    bytes_[way] += count * kBlockBytes;
    double longest = seconds_[way];
    while (longest < taken && !seconds_[way].compare_exchange_weak(longest, taken)) {
    }
  }

  const FlashFile& file_;
  std::vector<Block>& blocks_;
  std::atomic<bool> failed_ = false;
  std::atomic<std::uint64_t> bytes_[2] = {0, 0};
  std::atomic<double> seconds_[2] = {1e-9, 1e-9};
};

}  // namespace

FlashSpeeds probe_flash(const std::string& directory, const std::function<void(std::string_view)>& progress) {
  FlashFile file = FlashFile::open(directory);
  if (!file.direct()) {
    throw Error(Status::kInvalid,
                fmt::format("the disk of '{}' cannot be measured past the page cache (O_DIRECT); give "
                            "its speed with --flash-read and --flash-write",
                            directory));
  }
  if (file.grow(kFileBlocks * kBlockBytes) != Status::kOk) {
    throw Error(Status::kNoSpace, fmt::format("'{}' has no {} free to measure its speed; name another directory with "
                                              "--flash, or give the speed with --flash-read and --flash-write",
                                              directory, format_size(kFileBlocks * kBlockBytes)));
  }
  std::vector<Block> blocks;
  for (int i = 0; i < 2 * kWorkers; ++i) blocks.push_back(make_block(static_cast<std::uint64_t>(i)));
  FlashSpeeds speeds;
  progress("flash, writes");
  const double filled = Phase(file, blocks).fill();
  speeds.write = std::max(filled, Phase(file, blocks).run(0, kWorkers).second);
  progress("flash, reads");
  speeds.read = Phase(file, blocks).run(kWorkers, 0).first;
  progress("flash, both at once");
  std::tie(speeds.read_mixed, speeds.write_mixed) = Phase(file, blocks).run(kWorkers, kWorkers);
  return speeds;
}

}  // namespace ebb::cli
