// See interface.h.
#include "reference/interface.h"

#include <algorithm>
#include <sstream>

namespace ebb::cli {
namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

bool in_small_letters(const std::string& word) {
  return std::all_of(word.begin(), word.end(), [](char c) { return c >= 'a' && c <= 'z'; });
}

Values describe_values(const std::string& name) {
  Values values;
  values.name = name;
  for (const std::string& part : split(name.substr(0, name.find_first_of("[,.")), '|')) {
    if (part == "FILE" || part == "TRACE" || part == "PATH") values.files = true;
    if (part == "DIR") values.directories = true;
    if (!part.empty() && in_small_letters(part)) values.words.push_back(part);
  }
  return values;
}

OptionDescription describe(const CLI::Option& option) {
  OptionDescription description;
  description.environment = option.get_envname();
  description.help = option.get_description();
  for (const std::string& name : option.get_snames()) description.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) description.names.push_back("--" + name);
  description.argument = description.names.empty();
  if (description.argument) description.names.push_back(option.get_name());
  const bool named_by_itself = description.argument && option.get_type_name().empty();
  description.values = describe_values(named_by_itself ? option.get_name() : option.get_type_name());
  return description;
}

// Commands may have a usage of their own (CLI::Formatter), so it is taken from the help: one line for each way.
std::vector<std::string> usage_of(const CLI::App& command, const std::string& called) {
  const std::string label = "Usage:";
  const std::string help = command.get_formatter()->make_help(&command, called, CLI::AppFormatMode::Normal);
  std::vector<std::string> usage;
  for (const std::string& line : split(help.substr(help.find(label) + label.size()), '\n')) {
    if (line.empty()) break;
    usage.push_back(line.substr(line.find_first_not_of(' ')));
  }
  return usage;
}

CommandDescription describe(const CLI::App& command, const std::string& called) {
  CommandDescription description;
  description.name = command.get_name();
  description.help = command.get_description();
  description.usage = usage_of(command, called);
  description.footer = command.get_footer();
  for (const std::string& way : description.usage) {
    if (way.find(" -- ") != std::string::npos) description.takes_program = true;
  }
  for (const CLI::Option* option : command.get_options()) description.options.push_back(describe(*option));
  return description;
}

}  // namespace

Interface describe(const CLI::App& app) {
  Interface description;
  description.program = describe(app, app.get_name());
  for (const CLI::App* command : app.get_subcommands([](const CLI::App* /*any*/) { return true; })) {
    description.commands.push_back(describe(*command, app.get_name() + " " + command->get_name()));
  }
  return description;
}

}  // namespace ebb::cli
