// See warm_up.h.
#include "warm_up.h"

#include <fmt/format.h>

#include "ebb/status.h"
#include "numbers.h"

namespace ebb::cli {
namespace {

constexpr std::size_t kShare = 4;  // of a sequence, this part is warm-up if nobody says
// What tensors are rounded up to: whole pages, as G10 does; in a sequence no more than the heap does.
constexpr std::uint64_t kPageBytes = 4096;
constexpr std::uint64_t kHeapGrainBytes = 64;

}  // namespace

void add_warm_up_option(CLI::App& command, std::string& text) {
  command
      .add_option("--warm-up", text, "Of a sequence of iterations: so many go by before they count [a quarter of them]")
      ->type_name("N");
}

std::uint32_t warm_up_of(const std::string& text, const Trace& trace) {
  if (!trace.sequence) {
    if (text.empty()) return 0;
    throw Error(Status::kInvalid, "--warm-up: is for a sequence of iterations, and this trace is of one that repeats");
  }
  const std::size_t iterations = trace.steps.size();
  if (text.empty()) return static_cast<std::uint32_t>(iterations / kShare);
  const auto last = static_cast<std::uint32_t>(iterations - 1);
  if (const auto count = read_number(text, 0, last)) return *count;
  throw Error(Status::kInvalid,
              fmt::format("--warm-up: '{}' is not a number from 0 to {}, for {} iterations", text, last, iterations));
}

Vitality counted_vitality(const Trace& trace, std::uint32_t warm_up, Dead dead) {
  if (!trace.sequence) return analyse(trace, kPageBytes, dead);
  return analyse(trace, kHeapGrainBytes, dead, trace.begin_after(warm_up));
}

std::string counted_iterations(const Trace& trace, std::uint32_t warm_up) {
  return fmt::format("iterations {} to {}", warm_up + 1, trace.steps.size());
}

}  // namespace ebb::cli
