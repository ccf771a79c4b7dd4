// See fuzz_report.h.
#include "fuzz/fuzz_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "json_text.h"

namespace ebb::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kShownMax = 100;  // operations

double per_second(const Campaign& campaign) {
  return campaign.seconds > 0 ? static_cast<double>(campaign.all.operations) / campaign.seconds : 0;
}

std::string again(const Campaign& campaign) {
  return fmt::format("ebb fuzz --seed {} --ops {} --runs 1", campaign.failure->seed, campaign.operations);
}

Json to_object(const Failure& failure) {
  Json json{{"seed", failure.seed}, {"what", failure.verdict.what}, {"output", failure.verdict.output}};
  if (!failure.name.empty()) json["name"] = failure.name;
  if (failure.shortest) json["program"] = Json::parse(failure.shortest->to_json());
  return json;
}

// Faults by kind: how often they were injected, and how many blocks they took.
Json faults_of(const FuzzOutcome& all) {
  Json json = Json::object();
  for (std::size_t i = 0; i < kFaults; ++i) {
    json[std::string(kFaultNames[i])] = {{"injected", all.injected[Fault(i)]}, {"lost", all.driver.lost_by[Fault(i)]}};
  }
  json["flash_full"] = {{"injected", all.flash_full}, {"lost", 0}};
  json["frames_short"] = {{"injected", all.frames_short}, {"lost", 0}};
  return json;
}

Json reached_of(const FuzzOutcome& all) {
  return {{"turns", all.driver.turns},     {"faults", all.driver.faults},       {"fetched", all.engine.fetched},
          {"evicted", all.engine.evicted}, {"clean", all.engine.clean},         {"prefetched", all.engine.prefetched},
          {"rescues", all.engine.rescues}, {"io_errors", all.engine.io_errors}, {"corrupt", all.engine.corrupt},
          {"lost", all.driver.lost},       {"starved", all.driver.starved},     {"rewritten", all.engine.rewritten}};
}

}  // namespace

std::string to_text(const Campaign& campaign) {
  std::string text = fmt::format("{}{} operations of {} seeds in {:.1f} s, {:.0f} a second\n",
                                 campaign.interrupted ? "interrupted: " : "", campaign.all.operations, campaign.seeds,
                                 campaign.seconds, per_second(campaign));
  std::uint64_t injected = 0;
  for (std::size_t i = 0; i < kFaults; ++i) injected += campaign.all.injected[Fault(i)];
  text += fmt::format("{} faults injected; {} blocks lost by them, each loudly; {} touches starved, each loudly\n",
                      injected, campaign.all.driver.lost, campaign.all.driver.starved);
  if (!campaign.failure) return text + "no failure\n";
  const Failure& failure = *campaign.failure;
  const std::size_t length = failure.shortest->operations.size();
  return text + fmt::format("FAILED seed {}: {}\nagain: {}\nmade short in {} tries, {} operations:\n{}{}", failure.seed,
                            failure.verdict.what, again(campaign), failure.tries, length,
                            length <= kShownMax ? failure.shortest->to_json() : "(too long to show: --save FILE)\n",
                            failure.verdict.output);
}

std::string to_json(const Campaign& campaign) {
  Json json{{"seed", campaign.seed},
            {"operations_a_seed", campaign.operations},
            {"seeds", campaign.seeds},
            {"operations", campaign.all.operations},
            {"seconds", campaign.seconds},
            {"operations_per_second", per_second(campaign)},
            {"virtual_seconds", static_cast<double>(campaign.all.virtual_ns) * 1e-9},
            {"hash", fmt::format("{:016x}", campaign.all.hash)},
            {"interrupted", campaign.interrupted},
            {"faults", faults_of(campaign.all)},
            {"reached", reached_of(campaign.all)},
            {"failures", Json::array()}};
  if (campaign.failure) {
    Json failure = to_object(*campaign.failure);
    failure["again"] = again(campaign);
    json["failures"].push_back(failure);
  }
  return json_text(json);
}

std::string to_text(const Replay& replay) {
  std::string text;
  for (const Failure& failure : replay.failures) {
    text += fmt::format("FAILED {}: {}\n{}", failure.name, failure.verdict.what, failure.verdict.output);
  }
  return text + fmt::format("{} programs, {} failed\n", replay.programs, replay.failures.size());
}

std::string to_json(const Replay& replay) {
  Json json{{"programs", replay.programs}, {"failures", Json::array()}};
  for (const Failure& failure : replay.failures) json["failures"].push_back(to_object(failure));
  return json_text(json);
}

}  // namespace ebb::cli
