// See flash_probe.h. One thread keeps requests in flight, as the runtime's does, through the driver that it would take.
#include "calibrate/flash_probe.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "calibrate/busy_cores.h"
#include "drivers/linux/flash/flash_file.h"
#include "ebb/options.h"
#include "ebb/status.h"
#include "ebb/units.h"
#include "port/raw_flash.h"
#include "runtime/open_flash.h"

namespace ebb::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kBlockBytes = 2 * kMiB;
constexpr std::uint64_t kFileBlocks = 512;             // 1 GiB: beyond the cache of most drives' controllers
constexpr std::uint32_t kLaneDepth = kQueueDepth / 2;  // requests in flight a direction, as the engine has it
constexpr std::chrono::milliseconds kRampUp{200};
constexpr std::chrono::milliseconds kPhase{1000};
constexpr std::chrono::milliseconds kAlonePhase{400};  // of a computation, before and after what is moved beside it
constexpr std::chrono::seconds kStuck{30};

// Buffers for all requests, on huge pages like the runtime's frames: on small ones the kernel splits each transfer into
// pieces, and some disks are a third slower. Filled with random bytes, since some disks and file systems compress.
class Buffers {
 public:
  Buffers() : mapped_(::mmap(nullptr, kMapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    if (mapped_ == MAP_FAILED) throw Error(Status::kNoMemory, "no memory for the buffers of the flash measurement");
    void* aligned = mapped_;
    std::size_t room = kMapped;
    first_ = static_cast<std::byte*>(std::align(kBlockBytes, kBytes, aligned, room));
    ::madvise(first_, kBytes, MADV_HUGEPAGE);
    std::mt19937_64 random(1);
    for (std::size_t at = 0; at < kBytes; at += sizeof(std::uint64_t)) {
      const std::uint64_t word = random();
      std::memcpy(first_ + at, &word, sizeof word);
    }
  }
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;
  ~Buffers() { ::munmap(mapped_, kMapped); }

  std::span<std::byte> of(std::uint32_t token) const { return {first_ + token * kBlockBytes, kBlockBytes}; }

 private:
  static constexpr std::size_t kBytes = kQueueDepth * kBlockBytes, kMapped = kBytes + kBlockBytes;
  void* mapped_;
  std::byte* first_;
};

// A direction whose requests follow each other over its half of the file, or not at all.
struct Lane {
  bool write = false;
  std::uint64_t first = 0, blocks = 0;
  std::uint64_t begun = 0, counted = 0;  // requests; those that completed while it was measured

  // A stride that is odd visits all blocks of the lane, not in the order in which they lie.
  std::uint64_t next_offset(std::uint64_t stride) { return (first + stride * begun++ % blocks) * kBlockBytes; }
};

// Checked: with the checksum of what is to be written, and of what has been read, as the runtime has it.
enum class Checked : bool { kNo, kYes };

class Phase {
 public:
  Phase(RawFlash& flash, const Buffers& buffers, Checked checked)
      : flash_(flash), buffers_(buffers), checked_(checked == Checked::kYes) {}

  // Bytes a second of reads and of writes while the directions named are kept busy.
  std::pair<double, double> run(bool reads, bool writes) {
    const Clock::time_point from = Clock::now() + kRampUp, until = from + kPhase;
    if (reads) fill_lane(lanes_[0]);
    if (writes) fill_lane(lanes_[1]);
    while (Clock::now() < until) {
      take([&](Lane& lane, std::uint32_t token) {
        if (Clock::now() >= from) ++lane.counted;
        submit(lane, token, kStride);
      });
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - from).count();
    while (in_flight_ > 0) take([](Lane&, std::uint32_t) {});
    return {static_cast<double>(lanes_[0].counted * kBlockBytes) / seconds,
            static_cast<double>(lanes_[1].counted * kBlockBytes) / seconds};
  }

  std::uint64_t moved() const { return moved_; }

  // Writes every block once, so that reads find something.
  void fill() {
    Lane all{true, 0, kFileBlocks};
    for (std::uint32_t token = 0; token < kLaneDepth; ++token) submit(all, token, 1);
    while (in_flight_ > 0) {
      take([&](Lane&, std::uint32_t token) {
        if (all.begun < kFileBlocks) submit(all, token, 1);
      });
    }
  }

 private:
  static constexpr std::uint64_t kStride = 17;

  void fill_lane(Lane& lane) {
    for (std::uint32_t i = 0; i < kLaneDepth; ++i) submit(lane, (lane.write ? kLaneDepth : 0) + i, kStride);
  }

  void submit(Lane& lane, std::uint32_t token, std::uint64_t stride) {
    if (checked_ && lane.write) check(token);
    flash_.submit({lane.write, token, lane.next_offset(stride), buffers_.of(token)});
    ++in_flight_;
  }

  // Waits for completions and hands over the lane and the token of each.
  template <typename Then>
  void take(const Then& then) {
    std::array<RawCompletion, kQueueDepth> done;
    std::size_t count = 0;
    const Clock::time_point give_up = Clock::now() + kStuck;
    while ((count = flash_.poll(done)) == 0) {
      if (Clock::now() > give_up) throw Error(Status::kIoError, "the disk under flash does not answer");
      flash_.wait(std::chrono::seconds(1));
    }
    for (const RawCompletion& completion : std::span(done).first(count)) {
      --in_flight_;
      ++moved_;
      if (completion.status != Status::kOk) {
        throw Error(
            Status::kIoError,
            "a transfer failed while flash was measured; see the kernel's log, or name another disk with --flash");
      }
      Lane& lane = lanes_[completion.token / kLaneDepth];
      if (checked_ && !lane.write) check(completion.token);
      then(lane, completion.token);
    }
  }

  void check(std::uint32_t token) { checks_ = checks_ + digest(buffers_.of(token)).low; }

  RawFlash& flash_;
  const Buffers& buffers_;
  bool checked_;
  volatile std::uint64_t checks_ = 0;  // so that none is left out
  std::array<Lane, 2> lanes_{Lane{false, 0, kFileBlocks / 2}, Lane{true, kFileBlocks / 2, kFileBlocks / 2}};
  std::uint32_t in_flight_ = 0;
  std::uint64_t moved_ = 0;
};

// `moved` are the blocks that all of it has moved.
FlashRates measure_rates(RawFlash& flash, const Buffers& buffers, Checked checked, std::uint64_t& moved) {
  FlashRates rates;
  const auto run = [&](bool reads, bool writes) {
    Phase phase(flash, buffers, checked);
    const std::pair<double, double> found = phase.run(reads, writes);
    moved += phase.moved();
    return found;
  };
  rates.write = run(false, true).second;
  rates.read = run(true, false).first;
  std::tie(rates.read_mixed, rates.write_mixed) = run(true, true);
  return rates;
}

// What a computation has done since.
class Progress {
 public:
  explicit Progress(const BusyCores& busy) : busy_(busy), passes_(busy.passes()) {}

  double seconds() const { return std::chrono::duration<double>(Clock::now() - since_).count(); }
  double passes() const { return static_cast<double>(busy_.passes() - passes_); }

 private:
  const BusyCores& busy_;
  Clock::time_point since_ = Clock::now();
  std::uint64_t passes_;
};

// What one operator of it takes with nothing beside it.
double pass_alone_s(const BusyCores& busy) {
  const Progress alone(busy);
  std::this_thread::sleep_for(kAlonePhase);
  return alone.seconds() / std::max(alone.passes(), 1.0);
}

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
  const Buffers buffers;  // outlives the driver, which may have requests in flight when a measurement fails
  std::string driver;
  const std::unique_ptr<RawFlash> flash = open_flash(Options{}, std::move(file), {.depth = kQueueDepth}, driver);
  FlashSpeeds speeds;
  progress("flash");
  Phase(*flash, buffers, Checked::kNo).fill();
  std::uint64_t moved = 0;
  speeds.disk = measure_rates(*flash, buffers, Checked::kNo, moved);
  progress("flash, beside a computation");
  const BusyCores busy;
  std::this_thread::sleep_for(kRampUp);
  const double before_s = pass_alone_s(busy);
  const Progress beside(busy);
  moved = 0;
  speeds.busy = measure_rates(*flash, buffers, Checked::kYes, moved);
  const double seconds = beside.seconds(), passes = beside.passes();
  const double longer_s = seconds - passes * std::min(before_s, pass_alone_s(busy));  // others only make it longer
  if (passes > 0 && longer_s > 0) speeds.toll_bps = static_cast<double>(moved * kBlockBytes) / longer_s;
  return speeds;
}

}  // namespace ebb::cli
