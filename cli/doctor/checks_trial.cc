// The question behind all others, asked directly: does a runtime open here, and is what it evicts what it fetches?
// A small budget is filled several times over and read back. Runs in a process of its own.
#include <fmt/format.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "doctor/check.h"
#include "ebb/options.h"
#include "ebb/runtime.h"
#include "ebb/status.h"
#include "text.h"

namespace ebb::cli {
namespace {

constexpr std::uint64_t kBudgetBytes = 64 * kMiB;
constexpr std::uint64_t kDataBytes = 192 * kMiB;
constexpr std::uint64_t kFlashBytes = 512 * kMiB;
constexpr std::size_t kWords = kDataBytes / sizeof(std::uint64_t);

constexpr std::uint64_t word_at(std::size_t index) { return index * 0x9e3779b97f4a7c15ull; }

// How many words came back other than they were written.
std::uint64_t fill_and_compare(Runtime& runtime) {
  auto* words = static_cast<std::uint64_t*>(runtime.allocate(kDataBytes));
  for (std::size_t index = 0; index < kWords; ++index) words[index] = word_at(index);
  std::uint64_t wrong = 0;
  for (std::size_t index = 0; index < kWords; ++index) wrong += words[index] != word_at(index);
  runtime.deallocate(words);
  return wrong;
}

}  // namespace

Check check_trial(const std::string& directory) {
  Check check{"trial", "trial", Verdict::kBlocking, "", "", {}};
  Options options;
  options.memory = kBudgetBytes;
  options.flash = directory;
  options.flash_bytes = kFlashBytes;
  try {
    const auto start = std::chrono::steady_clock::now();
    const std::shared_ptr<Runtime> runtime = Runtime::open(options);
    const std::uint64_t wrong = fill_and_compare(*runtime);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    const Stats stats = runtime->stats();
    check.details = {{"description", runtime->description()},
                     {"seconds", took.count()},
                     {"evicted_bytes", stats.evicted_bytes},
                     {"fetched_bytes", stats.fetched_bytes}};
    if (wrong != 0) {
      check.found = fmt::format("{} words came back other than they were written", wrong);
      check.remedy = "do not use this machine: its memory or its disk is failing, or Ebbtide has a defect";
      return check;
    }
    check.verdict = Verdict::kGood;
    check.found = fmt::format("{} through {} of memory in {}: {}", format_size(kDataBytes), format_size(kBudgetBytes),
                              format_seconds(took.count()), runtime->description());
  } catch (const Error& error) {
    check.found = fmt::format("a runtime does not open here: {}", error.what());
    check.remedy = "mend what is marked above first";
  }
  return check;
}

}  // namespace ebb::cli
