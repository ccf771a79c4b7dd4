// The completion of bash, 4 or later; the package bash-completion is used for programs after "--" where it is loaded.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "reference/completion.h"

namespace ebb::cli {
namespace {

constexpr const char* kBashScript = R"(# Completion of ebb for bash; made by: ebb completion bash
_ebb_words() {{ mapfile -t COMPREPLY < <(compgen -W "$1" -- "$word"); }}

_ebb_files() {{
  compopt -o filenames 2>/dev/null
  mapfile -t COMPREPLY < <(compgen "$1" -- "$word")
}}

# The command line of the program that begins with this word.
_ebb_program() {{
  if declare -F _command_offset >/dev/null; then
    _command_offset "$1"
  elif ((COMP_CWORD == $1)); then
    mapfile -t COMPREPLY < <(compgen -c -- "$word")
  else
    _ebb_files -f
  fi
}}

_ebb() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}} command=${{COMP_WORDS[1]}} i
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    _ebb_words '{commands}'
    return
  fi
  case $command in
    {programs})
      for ((i = 2; i < COMP_CWORD; i++)); do
        if [[ ${{COMP_WORDS[i]}} == -- ]]; then
          _ebb_program $((i + 1))
          return
        fi
      done
      ;;
  esac
  # readline makes three words of --option=value.
  if [[ $word == = ]]; then
    word=
  elif [[ $before == = ]]; then
    before=${{COMP_WORDS[COMP_CWORD - 2]}}
  fi
  case $command:$before in
{values}  esac
  case $command:$word in
{options}  esac
  case $command in
{arguments}  esac
}}
complete -F _ebb ebb
)";

std::string reply(const Values& values) {
  if (values.files) return "_ebb_files -f";
  if (values.directories) return "_ebb_files -d";
  if (values.words.empty()) return ":";  // nothing: nobody knows
  return fmt::format("_ebb_words '{}'", fmt::join(values.words, " "));
}

std::vector<std::string> names_of(const CommandDescription& command) {
  std::vector<std::string> names;
  for (const OptionDescription& option : command.options) {
    if (!option.argument) names.insert(names.end(), option.names.begin(), option.names.end());
  }
  return names;
}

}  // namespace

std::string bash_completion(const Interface& interface) {
  std::vector<std::string> commands;
  std::vector<std::string> programs;
  std::map<std::string, std::vector<std::string>> values;  // by what is offered
  std::string options;
  std::string arguments;
  for (const CommandDescription& command : interface.commands) {
    commands.push_back(command.name);
    if (command.takes_program) programs.push_back(command.name);
    options += fmt::format("    {}:-*) _ebb_words '{}'; return ;;\n", command.name, fmt::join(names_of(command), " "));
    for (const OptionDescription& option : command.options) {
      if (option.argument) arguments += fmt::format("    {}) {} ;;\n", command.name, reply(option.values));
      if (option.argument || option.values.name.empty()) continue;
      for (const std::string& name : option.names) values[reply(option.values)].push_back(command.name + ":" + name);
    }
  }
  std::string cases;
  for (const auto& [offer, places] : values) {
    cases += fmt::format("    {})\n      {}\n      return\n      ;;\n", fmt::join(places, " | "), offer);
  }
  for (const std::string& name : names_of(interface.program)) commands.push_back(name);
  return fmt::format(kBashScript, fmt::arg("commands", fmt::join(commands, " ")),
                     fmt::arg("programs", fmt::join(programs, " | ")), fmt::arg("values", cases),
                     fmt::arg("options", options), fmt::arg("arguments", arguments));
}

}  // namespace ebb::cli
