// See report_command.h.
#include "run/report/report_command.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "drivers/linux/system/system_files.h"
#include "ebb/status.h"
#include "json_text.h"
#include "run/report/report_page.h"
#include "run/summary.h"
#include "top/top_table.h"

namespace ebb::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kBytesMax = 256u << 20;
constexpr std::size_t kColumnsMax = 100'000;
constexpr std::string_view kDataBegin = R"(<script type="application/json" id="data">)";
constexpr std::string_view kDataEnd = "</script>";

[[noreturn]] void refuse(const std::string& file, const std::string& why) {
  throw Error(Status::kInvalid,
              fmt::format("'{}' {}; give what `ebb run --report FILE.json` or FILE.html has written", file, why));
}

std::string read_all(const std::string& path) {
  FileDescriptor opened(path == "-" ? ::dup(STDIN_FILENO) : ::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  std::array<char, 65536> buffer;
  ssize_t count = opened.valid() ? 1 : -1;
  while (count > 0) {
    count = ::read(opened.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR)
      count = 1;
    else if (count > 0)
      text.append(buffer.data(), static_cast<std::size_t>(count));
    if (text.size() > kBytesMax) refuse(path, "is longer than any report");
  }
  if (count < 0) refuse(path, fmt::format("cannot be read: {}", std::strerror(errno)));
  return text;
}

// The data of a page lie in it.
Json data_of(const std::string& path, std::string text) {
  if (const std::size_t begin = text.find(kDataBegin); begin != std::string::npos) {
    const std::size_t from = begin + kDataBegin.size();
    text = text.substr(from, text.find(kDataEnd, from) - from);
  }
  Json data = Json::parse(text, nullptr, false);
  const auto is_text = [](const Json& value) { return value.is_string(); };
  const auto has = [&](const char* key, auto is) { return data.contains(key) && (data[key].*is)(); };
  bool good = data.is_object() && has("run", &Json::is_object) && has("tiles", &Json::is_array) &&
              has("advice", &Json::is_array) && has("timeline", &Json::is_object) &&
              has("predictions", &Json::is_array) && has("prediction_note", &Json::is_string) &&
              has("wear", &Json::is_string);
  good = good && data["run"].contains("command") && data["run"]["command"].is_array();
  const auto all_text = [&](const Json& list) {
    return list.is_array() && std::all_of(list.begin(), list.end(), is_text);
  };
  good = good && all_text(data["run"]["command"]) && all_text(data["advice"]);
  for (const Json& tile : good ? data["tiles"] : Json::array()) good = good && all_text(tile) && tile.size() == 2;
  if (!good) refuse(path, "is no report");
  return data;
}

std::string words_of(const Json& data) {
  std::string text;
  const auto line = [&](const std::string& content) { text += fit(content, kColumnsMax) + "\n"; };
  std::string command = "ebb report:";
  for (const Json& word : data["run"]["command"]) command += " " + word.get<std::string>();
  line(command);
  for (const Json& tile : data["tiles"]) {
    line(fmt::format("  {:<28} {}", tile[0].get<std::string>(), tile[1].get<std::string>()));
  }
  text += "\n";
  for (const Json& advice : data["advice"]) line(advice.get<std::string>());
  line(data["wear"].get<std::string>());
  return text;
}

}  // namespace

CLI::App* add_report(CLI::App& app, ReportArguments& arguments) {
  CLI::App* command = app.add_subcommand("report", "Tell a report of a run in words, or make its page again");
  command->add_option("FILE", arguments.file, "What `ebb run --report` has written, .json or .html; -: standard input")
      ->required()
      ->type_name("");
  command->add_option("--to", arguments.to, "Write it as a page (FILE.html) or as data (FILE.json)")
      ->type_name("FILE.html|FILE.json");
  command->add_flag("--json", arguments.json, "Print its data as one JSON object");
  command->footer("Example: ebb report run.json --to run.html");
  return command;
}

int show_report(const ReportArguments& arguments) {
  std::optional<SummaryFile> target;
  if (!arguments.to.empty()) target.emplace(arguments.to, "report", "--to");
  const Json data = data_of(arguments.file, read_all(arguments.file));
  if (target) target->write(report_file(arguments.to, data));
  if (target && !arguments.json) return 0;
  if (!write_all(STDOUT_FILENO, arguments.json ? json_line(data) + "\n" : words_of(data))) {
    throw Error(Status::kIoError, "the report cannot be written to stdout");
  }
  return 0;
}

}  // namespace ebb::cli
