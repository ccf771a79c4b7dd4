// See top_json.h.
#include "top/top_json.h"

#include "run/wait_account.h"
#include "top/top_table.h"

namespace ebb::cli {
namespace {

using Json = nlohmann::ordered_json;

void add_rates(Json& json, const Rates& rates) {
  json["fetch_bps"] = rates.fetch_bps;
  json["evict_bps"] = rates.evict_bps;
  json["stalled_share"] = rates.stalled;
  for (std::size_t i = 0; i < kWaitCauses; ++i) json["stalled_causes"][kWaitCauseNames[i]] = rates.causes[i];
}

Json process_json(const ProcessActivity& activity) {
  const ProcessReading& process = *activity.process;
  const StatsReading& reading = process.reading;
  Json json{{"pid", process.pid},
            {"rank", process.rank < 0 ? Json(nullptr) : Json(process.rank)},
            {"name", process.name},
            {"policy", reading.policy}};
  add_rates(json, activity.rates);
  json["step_count"] = reading.step_count;
  json["last_step_seconds"] =
      reading.recent_step_seconds.empty() ? Json(nullptr) : Json(reading.recent_step_seconds.back());
  for (const auto& [name, counter] : kStatsFields) json[name] = reading.stats.*counter;
  json["waits"] = waits_json(reading.waits);
  return json;
}

Json run_json(const RunActivity& activity) {
  const RunFacts& facts = activity.run->facts;
  Json json{{"pid", facts.pid},
            {"command", facts.command},
            {"elapsed_seconds", elapsed_seconds(facts)},
            {"on_device", facts.on_device},
            {"budget_bytes", facts.budget_bytes},
            {"budget_automatic", facts.automatic},
            {"resident_bytes", activity.resident_bytes},
            {"flash_bytes", activity.flash_bytes}};
  add_rates(json, activity.rates);
  json["disk_read_bps"] = facts.disk_read_bps > 0 ? Json(facts.disk_read_bps) : Json(nullptr);
  json["processes"] = Json::array();
  for (const ProcessActivity& process : activity.processes) json["processes"].push_back(process_json(process));
  return json;
}

}  // namespace

Json top_json(const Activity& activity) {
  Json json{{"interval_seconds", activity.seconds}, {"runs", Json::array()}};
  for (const RunActivity& run : activity.runs) json["runs"].push_back(run_json(run));
  return json;
}

}  // namespace ebb::cli
