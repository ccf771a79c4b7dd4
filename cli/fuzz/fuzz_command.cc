// See fuzz_command.h.
#include "fuzz/fuzz_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <random>
#include <vector>

#include "drivers/linux/system/system_files.h"
#include "ebb/status.h"
#include "fuzz/campaign.h"
#include "fuzz/fuzz_report.h"
#include "numbers.h"
#include "sim/fuzz/fuzz_draw.h"

namespace ebb::cli {
namespace {

constexpr std::uint32_t kOperations = 300;
constexpr std::uint32_t kOperationsMax = 1'000'000;
constexpr double kMinutes = 1;
constexpr double kMinutesMax = 60 * 24 * 365;

template <typename T>
T read_all(const std::string& text, T least, T most, const char* option, const char* example) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value >= least && value <= most) return value;
  throw Error(Status::kInvalid,
              fmt::format("{}: '{}' is not a number from {} to {}, such as {}", option, text, least, most, example));
}

// Of those that begin at the same time each has its own.
std::uint64_t fresh_seed() {
  std::random_device device;
  return device() * std::uint64_t{1000};
}

Campaign campaign_of(const FuzzArguments& arguments) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max() / 2;
  Campaign campaign;
  campaign.seed =
      arguments.seed.empty() ? fresh_seed() : read_all<std::uint64_t>(arguments.seed, 0, kMost, "--seed", "17");
  campaign.operations = kOperations;
  if (!arguments.operations.empty()) {
    campaign.operations = read_all<std::uint32_t>(arguments.operations, 1, kOperationsMax, "--ops", "300");
  }
  const bool counted = !arguments.runs.empty();
  campaign.seeds_max = counted ? read_all<std::uint64_t>(arguments.runs, 1, kMost, "--runs", "1000") : kMost;
  double minutes = counted ? kMinutesMax : kMinutes;
  if (!arguments.minutes.empty()) {
    minutes = read_all<double>(arguments.minutes, 0.001, kMinutesMax, "--minutes", "3");
  }
  campaign.time = std::chrono::duration<double>(60 * minutes);
  return campaign;
}

std::vector<std::string> files_in(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return {path};
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    if (entry.path().extension() == ".json") files.push_back(entry.path().string());
  }
  if (files.empty()) throw Error(Status::kInvalid, fmt::format("--replay: there is no .json file in '{}'", path));
  std::sort(files.begin(), files.end());
  return files;
}

Replay replay(const std::string& path) {
  Replay result;
  std::vector<Scenario> scenarios;
  for (const std::string& file : files_in(path)) {
    scenarios.push_back(Scenario::load(file));
    if (scenarios.back().operations.empty()) draw_operations(scenarios.back());
  }
  for (const Scenario& scenario : scenarios) {
    ++result.programs;
    const Verdict verdict = run_isolated(scenario);
    if (verdict.failed) result.failures.push_back({scenario.name, scenario.seed, verdict, scenario, 0});
  }
  return result;
}

void save(const std::string& path, const Failure& failure) {
  std::ofstream file(path);
  file << failure.shortest->to_json();
  if (!file.flush()) throw Error(Status::kInvalid, fmt::format("--save: '{}' cannot be written", path));
}

}  // namespace

int fuzz(const FuzzArguments& arguments) {
  if (!arguments.replay.empty()) {
    for (const std::string* other :
         {&arguments.seed, &arguments.minutes, &arguments.runs, &arguments.operations, &arguments.save}) {
      if (!other->empty()) throw Error(Status::kInvalid, "--replay takes no other option but --json");
    }
    const Replay result = replay(arguments.replay);
    write_all(STDOUT_FILENO, arguments.json ? to_json(result) : to_text(result));
    return result.failures.empty() ? 0 : 1;
  }
  Campaign campaign = campaign_of(arguments);
  if (!arguments.json) write_all(STDOUT_FILENO, fmt::format("seed {}\n", campaign.seed));
  run_campaign(campaign);
  if (campaign.failure && !arguments.save.empty()) save(arguments.save, *campaign.failure);
  write_all(STDOUT_FILENO, arguments.json ? to_json(campaign) : to_text(campaign));
  return campaign.failure ? 1 : 0;
}

}  // namespace ebb::cli
