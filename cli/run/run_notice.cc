// See run_notice.h.
#include "run/run_notice.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "json_text.h"

namespace ebb::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kCommandMax = 8192;  // bytes of all words; what is longer is cut off

FileDescriptor create(const std::string& path) {
  return FileDescriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
}

}  // namespace

RunNotice::RunNotice(const std::string& path, const RunFacts& facts) : budget_(create(path + kBudgetSuffix)) {
  set_budget(facts.budget_bytes);
  Json command = Json::array();
  std::size_t left = kCommandMax;
  for (const std::string& word : facts.command) {
    command.push_back(word.substr(0, left));
    left -= std::min(left, word.size() + 1);
    if (left == 0) break;
  }
  const Json json{{"pid", facts.pid},
                  {"command", std::move(command)},
                  {"started", facts.started},
                  {"automatic", facts.automatic},
                  {"on_device", facts.on_device},
                  {"disk_read_bps", facts.disk_read_bps}};
  const FileDescriptor file = create(path);
  if (file.valid()) write_all(file.get(), json_line(json) + "\n");
}

void RunNotice::set_budget(std::uint64_t bytes) const {
  if (!budget_.valid()) return;
  [[maybe_unused]] const ssize_t written = ::pwrite(budget_.get(), &bytes, sizeof bytes, 0);
}

std::optional<RunFacts> parse_run_notice(const std::string& notice, const std::string& budget) {
  RunFacts facts;
  if (budget.size() != sizeof facts.budget_bytes) return std::nullopt;
  std::memcpy(&facts.budget_bytes, budget.data(), sizeof facts.budget_bytes);
  try {
    const Json json = Json::parse(notice);
    json.at("pid").get_to(facts.pid);
    json.at("command").get_to(facts.command);
    json.at("started").get_to(facts.started);
    json.at("automatic").get_to(facts.automatic);
    json.at("on_device").get_to(facts.on_device);
    json.at("disk_read_bps").get_to(facts.disk_read_bps);
  } catch (const Json::exception&) {
    return std::nullopt;
  }
  return facts;
}

}  // namespace ebb::cli
