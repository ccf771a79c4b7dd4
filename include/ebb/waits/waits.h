// Where a program waits for memory: for which operator, module and kind of tensor, and why. A WaitReport is one reading
// of a Runtime's accounts; its times add up to what has been waited (Stats::stall_ns, but for a wait under way).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ebb {

// Why a stretch of time was waited. Where several threads wait at once, the stretch is charged to that one of them for
// which something happens first.
enum class WaitCause : std::uint8_t {
  kLate,       // it was on its way when it was needed
  kUnplanned,  // an announced launch needed it, and nobody had begun to fetch it
  kFault,      // a touch that was not announced, and nobody had begun to fetch it
  kNoFrame,    // no memory was free: something had to leave first
  kFlashFull,  // and could not, because flash was full
};
inline constexpr std::size_t kWaitCauses = 5;
inline constexpr std::array<const char*, kWaitCauses> kWaitCauseNames{"late", "unplanned", "fault", "no_frame",
                                                                      "flash_full"};

// What a tensor is to the program, as far as the program's modules and optimizers tell.
enum class TensorKind : std::uint8_t {
  kOther,       // nothing tells
  kParameter,   // and buffers of modules
  kGradient,    // of a parameter
  kOptimizer,   // state of an optimizer
  kActivation,  // anything else that a module's forward or backward pass uses
  kFile,        // mapped from one
};
inline constexpr std::size_t kTensorKinds = 6;
inline constexpr std::array<const char*, kTensorKinds> kTensorKindNames{"other",     "parameter",  "gradient",
                                                                        "optimizer", "activation", "file"};

// What waited, or was fetched for.
struct WaitEntry {
  std::string name;
  std::uint64_t waits = 0;
  std::array<std::uint64_t, kWaitCauses> stall_ns{};  // by cause
  std::uint64_t fetched_bytes = 0;                    // read from flash for it
  std::uint64_t ahead_bytes = 0;                      // of those: there before it asked
  std::uint64_t total_ns() const {
    std::uint64_t sum = 0;
    for (const std::uint64_t ns : stall_ns) sum += ns;
    return sum;
  }
};

// One wait, from its beginning to its end; times on the system's monotonic clock.
struct LongWait {
  std::uint64_t begin_ns = 0;
  std::uint64_t ns = 0;
  std::string op;
  std::string module;
  WaitCause cause = WaitCause::kLate;  // of its last part
  TensorKind kind = TensorKind::kOther;
};

// Most waited for first. What had no place in a table of fixed size is in an entry "(others)".
struct WaitReport {
  std::vector<WaitEntry> operators;
  std::vector<WaitEntry> modules;  // bytes: those of launches that waited
  std::array<std::uint64_t, kTensorKinds> kind_ns{};
  std::array<std::uint64_t, kWaitCauses> cause_ns{};
  std::uint64_t total_ns = 0;
  std::vector<LongWait> longest;  // in the order in which they began
};

// What the program's front end knows of a launch that is about to wait.
struct WaitContext {
  std::string module;                         // in which it runs; empty: in none that is known
  TensorKind otherwise = TensorKind::kOther;  // what it uses, where no note says
};

// Asked by the thread that waits, without a lock held, while what it needs is on its way.
using WaitObserver = void (*)(std::uint64_t op, WaitContext& context) noexcept;

// What a program calls a piece of memory.
struct MemoryNote {
  const void* data = nullptr;  // as allocate() or map_file() returned it
  TensorKind kind = TensorKind::kOther;
  std::string name;
};

}  // namespace ebb
