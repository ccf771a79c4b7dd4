// Trace: what one iteration of a program does to memory, or a sequence of them: launches in program order, with the
// tensors that they touch. The content of an `ebb-trace` file (docs/trace.md), or of a recording of a real run. Tensors
// are named by their index here; the ids that a file gave them are kept for people.
//
// Pure data, owned by whoever made it. Invariant: check() finds nothing; every use names a tensor, spans lie within
// uses.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace ebb {

struct Trace {
  using TensorIndex = std::uint32_t;
  using LaunchIndex = std::uint32_t;
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
  static constexpr std::uint64_t kUnknown = std::numeric_limits<std::uint64_t>::max();  // of a duration

  // What a trace may hold at most, so that sums over it cannot overflow and what a reader allocates has a bound.
  static constexpr std::uint64_t kIdMax = std::numeric_limits<std::uint32_t>::max();
  static constexpr std::uint64_t kBytesMax = std::uint64_t{1} << 56;
  static constexpr std::uint64_t kNsMax = std::uint64_t{1} << 56;
  static constexpr std::uint64_t kHeaderMax = std::uint64_t{1} << 56;  // batch, and each number of the machine
  static constexpr std::uint64_t kTotalMax = std::uint64_t{1} << 62;   // bytes of all tensors; ns of all launches
  static constexpr std::size_t kLinesMax = std::size_t{1} << 24;  // of tensors, launches and the other lines together
  static constexpr std::size_t kUsesMax = std::size_t{1} << 28;

  enum class Kind : std::uint8_t { kWeight, kGradient, kOptimizer, kInput, kActivation, kWorkspace, kOther };

  struct Tensor {
    std::uint32_t id = 0;
    Kind kind = Kind::kOther;
    bool persistent = false;  // lives across iterations
    bool mapped = false;      // persistent, and what it holds is in a file that the program maps: read, never written
    // A further piece of one allocation, directly behind the piece before it in `tensors`: there as long as that, but
    // used by itself.
    bool continues = false;
    std::uint64_t bytes = 0;
    // Explicit `alloc` and `free` lines: before which launch they stand (launches.size(): after the last); kNone: the
    // tensor is born at its first launch, or dies after its last.
    LaunchIndex allocated_before = kNone;
    LaunchIndex freed_before = kNone;

    bool lives_as(const Tensor& other) const {
      return persistent == other.persistent && mapped == other.mapped && allocated_before == other.allocated_before &&
             freed_before == other.freed_before;
    }
  };
  struct Launch {
    std::uint32_t op = 0;  // index into ops
    std::uint32_t first_use = 0;
    std::uint32_t reads = 0;  // uses[first_use, first_use + reads) are read, the next `writes` are written
    std::uint32_t writes = 0;
    std::uint64_t ns = kUnknown;  // how long the kernel runs with all its tensors in device memory
    bool sync = false;            // the host waits for its end before it launches anything more
  };

  // The memories and links of the machine that it was recorded on, as Machine names them, in bytes and bytes a second,
  // and what launching takes its host, in nanoseconds;
  // kUnknown: the file did not say. They are of that very run, so that a simulation of it starts from there.
  struct Origin {
    std::uint64_t device_bytes = kUnknown;
    std::uint64_t host_bytes = kUnknown;
    std::uint64_t device_link_bps = kUnknown;
    std::uint64_t flash_read_bps = kUnknown;
    std::uint64_t flash_write_bps = kUnknown;
    std::uint64_t flash_total_bps = kUnknown;
    std::uint64_t launch_host_ns = kUnknown;
    std::uint64_t sync_host_ns = kUnknown;
    bool operator==(const Origin&) const = default;
  };

  // The header, for people: empty if the file did not say.
  std::string model, source, device;
  std::uint64_t batch = 0;
  Origin origin;

  std::vector<std::string> ops;
  std::vector<Tensor> tensors;
  std::vector<Launch> launches;
  std::vector<TensorIndex> uses;
  std::vector<LaunchIndex> steps;  // where iterations end: before which launch; launches.size() if after the last
  // Happened once, from the first launch to the last, each in an iteration; otherwise all of it is repeated for ever.
  bool sequence = false;

  std::span<const TensorIndex> reads(const Launch& launch) const {
    return std::span(uses).subspan(launch.first_use, launch.reads);
  }
  std::span<const TensorIndex> writes(const Launch& launch) const {
    return std::span(uses).subspan(launch.first_use + launch.reads, launch.writes);
  }
  // Of a sequence: where its iterations begin that come after so many; launches.size(): nowhere.
  LaunchIndex begin_after(std::size_t iterations) const {
    if (iterations == 0) return 0;
    return iterations <= steps.size() ? steps[iterations - 1] : static_cast<LaunchIndex>(launches.size());
  }
  // Reads and writes; a tensor updated in place is in it twice.
  std::span<const TensorIndex> touched(const Launch& launch) const {
    return std::span(uses).subspan(launch.first_use, launch.reads + launch.writes);
  }
};

inline constexpr std::uint8_t kTraceKinds = 7;

// "weight", "gradient", ...: as in the files.
const char* name(Trace::Kind kind);

// Whether the trace keeps what its types cannot say: uses and spans in range, ids unique, limits held, every tensor
// used only between its `alloc` and its `free`, persistent ones with neither, iterations that are not empty, a sequence
// that ends with one. Returns "" or one sentence that says what is wrong.
std::string check(const Trace& trace);

}  // namespace ebb
