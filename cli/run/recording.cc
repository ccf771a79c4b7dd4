// See recording.h.
#include "run/recording.h"

#include <fmt/format.h>

#include <cstdint>

#include "ebb/status.h"
#include "numbers.h"
#include "trace/reader.h"

namespace ebb::cli {
namespace {

constexpr std::uint32_t kIterationsMax = 10'000;

// 1: one that stands for all.
std::uint32_t iterations_of(const std::string& text) {
  if (text.empty()) return 1;
  if (const auto iterations = read_number(text, 1, kIterationsMax)) return *iterations;
  throw Error(Status::kInvalid,
              fmt::format("--record-iterations: '{}' is not a number from 1 to {}", text, kIterationsMax));
}

}  // namespace

void add_record_iterations(const RunArguments& arguments, Variables& variables) {
  const std::uint32_t iterations = iterations_of(arguments.record_iterations);
  if (arguments.record.empty()) {
    if (arguments.record_iterations.empty()) return;
    throw Error(Status::kInvalid, "--record-iterations: say where to write them, with --record FILE");
  }
  variables.emplace_back("EBB_RECORD_ITERATIONS", std::to_string(iterations));
}

std::string recording_shortfall(const RunArguments& arguments) {
  const std::uint32_t wanted = iterations_of(arguments.record_iterations);
  if (wanted == 1) return "";
  constexpr const char* kRemedy =
      "they begin after the first two and are written when their number has doubled: let the program make more";
  try {
    const std::size_t found = read_trace(arguments.record).steps.size();
    if (found >= wanted) return "";
    return fmt::format("{} has {} iterations and not {}; {}", arguments.record, found, wanted, kRemedy);
  } catch (const Error& error) {
    return fmt::format("no trace of {} iterations: {}; {}", wanted, error.what(), kRemedy);
  }
}

}  // namespace ebb::cli
