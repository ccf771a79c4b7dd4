// See wait_account.h.
#include "run/wait_account.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "ebb/units.h"
#include "text.h"

namespace ebb::cli {
namespace {

constexpr std::size_t kWorst = 5;
constexpr std::uint64_t kShownNs = 1'000'000;  // less is no wait that anybody noticed

constexpr std::array<const char*, kWaitCauses> kCauses{"on its way, but late", "not fetched ahead",
                                                       "touched unannounced", "no memory free", "flash full"};
constexpr std::array<const char*, kTensorKinds> kKinds{"others",          "parameters",  "gradients",
                                                       "optimizer state", "activations", "files"};

double seconds(std::uint64_t ns) { return static_cast<double>(ns) / 1e9; }

nlohmann::ordered_json entries_json(const std::vector<WaitEntry>& entries) {
  auto json = nlohmann::ordered_json::array();
  for (const WaitEntry& entry : entries) {
    nlohmann::ordered_json item;
    item["name"] = entry.name;
    item["stall_seconds"] = seconds(entry.total_ns());
    item["waits"] = entry.waits;
    item["fetched_bytes"] = entry.fetched_bytes;
    item["ahead_bytes"] = entry.ahead_bytes;
    for (std::size_t i = 0; i < kWaitCauses; ++i) item["causes"][kWaitCauseNames[i]] = seconds(entry.stall_ns[i]);
    json.push_back(std::move(item));
  }
  return json;
}

// Most first, without what is nothing.
template <std::size_t size>
std::string shares(const std::array<std::uint64_t, size>& ns, const std::array<const char*, size>& names) {
  std::vector<std::pair<std::uint64_t, const char*>> parts;
  for (std::size_t i = 0; i < size; ++i) {
    if (ns[i] >= kShownNs) parts.emplace_back(ns[i], names[i]);
  }
  std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text;
  for (const auto& [part, name] : parts) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, format_seconds(seconds(part)));
  }
  return text;
}

}  // namespace

nlohmann::ordered_json waits_json(const WaitReport& waits) {
  nlohmann::ordered_json json;
  json["stall_seconds"] = seconds(waits.total_ns);
  for (std::size_t i = 0; i < kWaitCauses; ++i) json["causes"][kWaitCauseNames[i]] = seconds(waits.cause_ns[i]);
  for (std::size_t i = 0; i < kTensorKinds; ++i) json["kinds"][kTensorKindNames[i]] = seconds(waits.kind_ns[i]);
  json["modules"] = entries_json(waits.modules);
  json["operators"] = entries_json(waits.operators);
  return json;
}

void wait_rows(const WaitReport& waits, const std::function<void(const char*, const std::string&)>& row) {
  if (waits.total_ns < kShownNs) return;
  row("  why", shares(waits.cause_ns, kCauses));
  row("  for", shares(waits.kind_ns, kKinds));
  const auto worst = [&](const char* label, const std::vector<WaitEntry>& entries) {
    for (std::size_t i = 0; i < std::min(entries.size(), kWorst) && entries[i].total_ns() >= kShownNs; ++i) {
      const WaitEntry& entry = entries[i];
      row(i == 0 ? label : "",
          fmt::format("{:>8}  {} ({} times, {} fetched)", format_seconds(seconds(entry.total_ns())), entry.name,
                      entry.waits, format_size(entry.fetched_bytes)));
    }
  };
  worst("  in modules", waits.modules);
  worst("  by operators", waits.operators);
}

}  // namespace ebb::cli
