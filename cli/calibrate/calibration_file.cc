// See calibration_file.h.
#include "calibrate/calibration_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "drivers/linux/system/system_files.h"
#include "json_text.h"

namespace ebb::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;

Json empty_file() { return Json{{"version", kVersion}}; }

// Whatever is wrong with the file, it is as if nothing had been measured.
Json read_file() {
  const auto text = read_text(calibration_path());
  if (!text) return empty_file();
  Json json = Json::parse(*text, nullptr, false);
  if (!json.is_object() || !json.contains("version") || json["version"] != kVersion) return empty_file();
  if (json.contains("flash") && !json["flash"].is_object()) json.erase("flash");
  return json;
}

void write_file(const Json& json) {
  std::error_code ignored;
  const fs::path target = calibration_path();
  fs::create_directories(target.parent_path(), ignored);
  std::string temporary = target.string() + ".XXXXXX";
  const FileDescriptor file(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!file.valid()) return;
  if (!write_all(file.get(), json_text(json)) || std::rename(temporary.c_str(), target.c_str()) != 0) {
    ::unlink(temporary.c_str());
  }
}

std::string key_of(const std::string& directory) {
  std::error_code failed;
  const fs::path canonical = fs::canonical(directory, failed);
  return failed ? directory : canonical.string();
}

std::optional<FlashRates> rates_in(const Json& json) {
  const auto number = [&json](const char* name) {
    const auto value = json.find(name);
    return value != json.end() && value->is_number() ? value->get<double>() : 0.0;
  };
  const FlashRates rates{number("read_bps"), number("write_bps"), number("read_mixed_bps"), number("write_mixed_bps")};
  if (rates.read <= 0 || rates.write <= 0) return std::nullopt;
  return rates;
}

Json to_json(const FlashRates& rates) {
  return {{"read_bps", rates.read},
          {"write_bps", rates.write},
          {"read_mixed_bps", rates.read_mixed},
          {"write_mixed_bps", rates.write_mixed}};
}

}  // namespace

std::string calibration_path() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache != '\0') return std::string(cache) + "/ebbtide/calibration.json";
  const char* home = std::getenv("HOME");
  return std::string(home != nullptr ? home : "") + "/.cache/ebbtide/calibration.json";
}

std::optional<FlashSpeeds> known_flash(const std::string& directory) {
  const Json file = read_file();
  const auto flash = file.find("flash");
  if (flash == file.end() || !flash->is_object()) return std::nullopt;
  const auto found = flash->find(key_of(directory));
  if (found == flash->end() || !found->is_object()) return std::nullopt;
  const auto busy = found->find("busy");
  const auto toll = found->find("toll_bps");
  if (busy == found->end() || !busy->is_object()) return std::nullopt;  // of an ebb that did not measure it
  if (toll == found->end() || !toll->is_number() || *toll < 0.0) return std::nullopt;
  const auto of_disk = rates_in(*found), of_busy = rates_in(*busy);
  if (!of_disk || !of_busy) return std::nullopt;
  return FlashSpeeds{*of_disk, *of_busy, toll->get<double>()};
}

FlashSpeeds calibrate_flash(const std::string& directory, const std::function<void(std::string_view)>& progress) {
  const FlashSpeeds speeds = probe_flash(directory, progress);
  Json file = read_file();
  file["flash"][key_of(directory)] = to_json(speeds);
  write_file(file);
  return speeds;
}

nlohmann::ordered_json to_json(const FlashSpeeds& speeds) {
  Json json = to_json(speeds.disk);
  json["busy"] = to_json(speeds.busy);
  json["toll_bps"] = speeds.toll_bps;
  return json;
}

}  // namespace ebb::cli
