// See scenario.h.
#include "sim/scenario.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "ebb/status.h"

namespace ebb {
namespace {

using Json = nlohmann::json;

[[noreturn]] void refuse(const std::string& name, const std::string& why) {
  throw Error(Status::kInvalid, "scenario '" + name + "': " + why);
}

Ratio parse_ratio(const std::string& name, const std::string& key, const Json& value) {
  Ratio ratio;
  char slash = 0;
  char rest = 0;
  std::istringstream text(value.is_string() ? value.get<std::string>() : "");
  if (!(text >> ratio.numerator >> slash >> ratio.denominator) || slash != '/' || text >> rest ||
      ratio.denominator == 0 || ratio.numerator > ratio.denominator) {
    refuse(name, "'" + key + "' must be a ratio at most 1, written as \"1/20\"");
  }
  return ratio;
}

// Reads each key of an object into where its name says, and refuses the others.
class Reader {
 public:
  Reader(const std::string& name, const Json& object) : name_(name), object_(object) {
    if (!object.is_object()) refuse(name, "not an object");
  }
  void number(const char* key, std::uint64_t& to) {
    if (const Json* value = find(key)) {
      if (!value->is_number_unsigned()) refuse(name_, std::string("'") + key + "' must be a number, not negative");
      to = value->get<std::uint64_t>();
    }
  }
  void number(const char* key, std::uint32_t& to) {
    std::uint64_t wide = to;
    number(key, wide);
    if (wide > UINT32_MAX) refuse(name_, std::string("'") + key + "' is too large");
    to = static_cast<std::uint32_t>(wide);
  }
  void text(const char* key, std::string& to) {
    if (const Json* value = find(key)) {
      if (!value->is_string()) refuse(name_, std::string("'") + key + "' must be text");
      to = value->get<std::string>();
    }
  }
  void flag(const char* key, bool& to) {
    if (const Json* value = find(key)) {
      if (!value->is_boolean()) refuse(name_, std::string("'") + key + "' must be true or false");
      to = value->get<bool>();
    }
  }
  void ratio(const char* key, Ratio& to) {
    if (const Json* value = find(key)) to = parse_ratio(name_, key, *value);
  }
  const Json* find(const char* key) {
    const auto found = object_.find(key);
    if (found == object_.end()) return nullptr;
    ++known_;
    return &*found;
  }
  void done() {
    if (known_ != object_.size()) refuse(name_, "an unknown key; see src/sim/scenario.h for those there are");
  }

 private:
  const std::string& name_;
  const Json& object_;
  std::size_t known_ = 0;
};

void read_faults(const std::string& name, const Json& object, FaultPlan& faults) {
  Reader reader(name, object);
  for (std::size_t i = 0; i < kFaults; ++i) reader.ratio(kFaultNames[i].data(), faults[Fault(i)]);
  reader.number("extents_available", faults.extents_available);
  reader.number("frames_available", faults.frames_available);
  reader.done();
}

void read_operations(const std::string& name, const Json& array, std::vector<FuzzOperation>& operations) {
  const auto bad = [&] { refuse(name, "'operations' must be a list of [\"name\", dice]"); };
  if (!array.is_array()) bad();
  for (const Json& each : array) {
    if (!each.is_array() || each.size() != 2 || !each[0].is_string() || !each[1].is_number_unsigned()) bad();
    const auto action = fuzz_action_named(each[0].get<std::string>());
    const auto dice = each[1].get<std::uint64_t>();
    if (!action || dice > UINT32_MAX) bad();
    operations.push_back({*action, static_cast<std::uint32_t>(dice)});
  }
}

Json faults_to_json(const FaultPlan& faults) {
  Json json = Json::object();
  for (std::size_t i = 0; i < kFaults; ++i) {
    const Ratio ratio = faults[Fault(i)];
    if (ratio.numerator == 0) continue;
    json[std::string(kFaultNames[i])] = std::to_string(ratio.numerator) + "/" + std::to_string(ratio.denominator);
  }
  const FaultPlan none;
  if (faults.extents_available != none.extents_available) json["extents_available"] = faults.extents_available;
  if (faults.frames_available != none.frames_available) json["frames_available"] = faults.frames_available;
  return json;
}

}  // namespace

std::string Scenario::to_json() const {
  nlohmann::ordered_json json;
  json["seed"] = seed;
  json["steps"] = steps;
  json["frames"] = frames;
  json["extents"] = extents;
  if (host_extents > 0) json["host_extents"] = host_extents;
  json["policy"] = policy;
  if (pinned_percent > 0) json["pinned_percent"] = pinned_percent;
  if (steady) json["steady"] = true;
  json["faults"] = faults_to_json(faults);
  std::string text = json.dump();
  if (operations.empty()) return text + "\n";
  text.back() = ',';
  text += "\n \"operations\": [";
  for (const FuzzOperation& operation : operations) {
    text += "\n  [\"" + std::string(ebb::name(operation.action)) + "\", " + std::to_string(operation.dice) + "],";
  }
  text.back() = ']';
  return text + "}\n";
}

Scenario Scenario::parse(const std::string& text, const std::string& name) {
  const Json json = Json::parse(text, nullptr, false, true);
  if (json.is_discarded()) refuse(name, "not JSON");
  Scenario scenario;
  scenario.name = name;
  Reader reader(scenario.name, json);
  std::string about;  // what the scenario is for: for people
  reader.text("about", about);
  reader.number("seed", scenario.seed);
  reader.number("runs", scenario.runs);
  reader.number("steps", scenario.steps);
  reader.number("frames", scenario.frames);
  reader.number("extents", scenario.extents);
  reader.number("host_extents", scenario.host_extents);
  reader.number("pinned_percent", scenario.pinned_percent);
  reader.text("policy", scenario.policy);
  reader.flag("steady", scenario.steady);
  if (const Json* faults = reader.find("faults")) read_faults(scenario.name, *faults, scenario.faults);
  if (const Json* list = reader.find("operations")) read_operations(scenario.name, *list, scenario.operations);
  reader.done();
  return scenario;
}

Scenario Scenario::load(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw Error(Status::kInvalid, "scenario '" + path + "' cannot be read");
  std::ostringstream text;
  text << file.rdbuf();
  return parse(text.str(), std::filesystem::path(path).stem().string());
}

}  // namespace ebb
