// See report_data.h.
#include "run/report/report_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "ebb/units.h"
#include "ebb/waits/run_timeline.h"
#include "run/report/report_advice.h"
#include "run/stats_reader.h"
#include "text.h"

namespace ebb::cli {
namespace {

using Json = nlohmann::ordered_json;

// What makers of drives with three bits a cell commonly warrant, for each TB of capacity.
constexpr double kWarrantedBytesPerTb = 600e12;

template <typename Value>
Json series(const RunTimeline& timeline, Value value) {
  Json values = Json::array();
  for (std::uint64_t i = 0; i < timeline.samples; ++i) values.push_back(value(timeline.sample[i]));
  return values;
}

// What of these kinds lay in memory: never more than all that did, as what large tensors have there is an estimate.
std::uint64_t kind_bytes(const TimelineSample& sample, std::size_t kind) {
  std::uint64_t room = sample.resident - std::min(sample.resident, sample.small);
  for (std::size_t i = 0; i < kind; ++i) room -= std::min(room, sample.kind_resident[i]);
  return std::min(room, sample.kind_resident[kind]);
}

// What lay in memory, by kind; what nothing is known of is the rest.
Json parts_json(const RunTimeline& timeline) {
  constexpr std::array<std::pair<TensorKind, const char*>, 3> kNoted{{{TensorKind::kParameter, "parameters"},
                                                                      {TensorKind::kGradient, "gradients"},
                                                                      {TensorKind::kOptimizer, "optimizer state"}}};
  Json parts = Json::array();
  for (const auto& [kind, name] : kNoted) {
    const auto at = static_cast<std::size_t>(kind);
    parts.push_back({{"name", name},
                     {"tone", kTensorKindNames[at]},
                     {"bytes", series(timeline, [at](const TimelineSample& s) { return kind_bytes(s, at); })}});
  }
  const auto rest = [](const TimelineSample& s) {
    std::uint64_t noted = s.small;
    for (const std::uint64_t bytes : s.kind_resident) noted += bytes;
    return s.resident - std::min(s.resident, noted);
  };
  parts.push_back({{"name", "activations and the rest"}, {"tone", "activation"}, {"bytes", series(timeline, rest)}});
  parts.push_back({{"name", "small tensors"},
                   {"tone", "small"},
                   {"bytes", series(timeline, [](const TimelineSample& s) { return s.small; })}});
  return parts;
}

Json tensors_json(const RunTimeline& timeline) {
  std::vector<const TimelineRow*> rows;
  for (std::uint64_t i = 0; i < timeline.rows; ++i) rows.push_back(&timeline.row[i]);
  std::stable_sort(rows.begin(), rows.end(), [](const auto* a, const auto* b) { return a->bytes > b->bytes; });
  Json tensors = Json::array();
  for (const TimelineRow* const row : rows) {
    Json percent = Json::array();
    for (std::uint64_t i = 0; i < timeline.samples; ++i) {
      percent.push_back(row->percent[i] == TimelineRow::kAbsent ? Json(nullptr) : Json(row->percent[i]));
    }
    tensors.push_back({{"name", std::string(row->name, ::strnlen(row->name, sizeof row->name))},
                       {"kind", kTensorKindNames[std::min<std::size_t>(row->kind, kTensorKinds - 1)]},
                       {"bytes", row->bytes},
                       {"percent", std::move(percent)}});
  }
  return tensors;
}

Json timeline_json(const RunTimeline& timeline) {
  Json json;
  json["at"] = series(timeline, [](const TimelineSample& s) { return seconds_of(s.at_ns); });
  json["budget"] = series(timeline, [](const TimelineSample& s) { return s.budget; });
  json["resident"] = series(timeline, [](const TimelineSample& s) { return s.resident; });
  json["flash"] = series(timeline, [](const TimelineSample& s) { return s.flash; });
  json["fetched"] = series(timeline, [](const TimelineSample& s) { return s.fetched; });
  json["evicted"] = series(timeline, [](const TimelineSample& s) { return s.evicted; });
  json["stall"] = series(timeline, [](const TimelineSample& s) { return seconds_of(s.stall_ns); });
  json["steps"] = series(timeline, [](const TimelineSample& s) { return s.steps; });
  json["parts"] = parts_json(timeline);
  json["tensors"] = tensors_json(timeline);
  return json;
}

std::string wear_text(const RunAccount& account) {
  const auto written = static_cast<double>(account.stats.evicted_bytes);
  const double wall = account.outcome.wall_seconds;
  if (written <= 0 || wall <= 0) return "Nothing was written: flash does not wear from reading.";
  const double days = kWarrantedBytesPerTb / (written / wall) / 86'400;
  return fmt::format(
      "{} in {}. Assumed is a drive of 1 TB that is warranted for 600 TB written, as is common of drives with three "
      "bits "
      "a cell, and that all is written there as often as Ebbtide wrote it: without a pause, such runs reach that after "
      "{:.0f} days; this one took {:.5f} % of it. Look up the TBW of yours.",
      format_size(account.stats.evicted_bytes), format_seconds(wall), days, 100 * written / kWarrantedBytesPerTb);
}

Json tiles_json(const RunAccount& account) {
  const Stats& stats = account.stats;
  const double wall = account.outcome.wall_seconds;
  const double stalled = seconds_of(stats.stall_ns);
  Json tiles = Json::array();
  const auto add = [&tiles](const std::string& name, const std::string& value) { tiles.push_back({name, value}); };
  add("took", format_seconds(wall));
  add("waited", fmt::format("{} ({:.1f} %)", format_seconds(stalled), wall > 0 ? 100 * stalled / wall : 0.0));
  if (!account.step_seconds.empty()) {
    add(fmt::format("a step, median of {}", account.step_count), format_seconds(median(account.step_seconds)));
  }
  add("memory budget", format_size(stats.budget_bytes));
  add("live at most", format_size(stats.peak_live_bytes));
  add("read from flash", format_size(stats.fetched_bytes));
  add("written to flash", format_size(stats.evicted_bytes));
  return tiles;
}

Json predictions_json(const Prediction& prediction) {
  Json rows = Json::array();
  for (const WhatIfRow& row : prediction.rows) {
    rows.push_back({{"label", row.label},
                    {"memory_bytes", row.memory_bytes},
                    {"step_seconds", seconds_of(row.step_ns)},
                    {"read_bytes", row.read_bytes},
                    {"write_bytes", row.write_bytes}});
  }
  return rows;
}

}  // namespace

Json report_json(const RunAccount& account, const std::string& stats_page, const std::string& recording) {
  const Prediction prediction = predict(account, recording);
  std::unique_ptr<RunTimeline> timeline = read_timeline(stats_page);
  if (timeline == nullptr) timeline = std::make_unique<RunTimeline>();  // of a run in which nothing was managed
  Json json;
  json["run"] = summary_json(account);
  json["tiles"] = tiles_json(account);
  json["advice"] = advice(account, prediction);
  json["timeline"] = timeline_json(*timeline);
  json["predictions"] = predictions_json(prediction);
  json["prediction_note"] = prediction.note;
  json["wear"] = wear_text(account);
  return json;
}

}  // namespace ebb::cli
