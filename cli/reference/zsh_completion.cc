// The completion of zsh, by its function _arguments; a file of $fpath, or sourced.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/completion.h"

namespace ebb::cli {
namespace {

constexpr const char* kZshScript = R"(#compdef ebb
# Completion of ebb for zsh; made by: ebb completion zsh
_ebb() {{
  local mark
  local -a commands=(
{commands}  )
  if (( CURRENT == 2 )); then
    _describe command commands
    _arguments {options}
    return
  fi
  case $words[2] in
    {programs})
      mark=$words[(i)--]
      if (( mark < CURRENT )); then
        shift $mark words
        (( CURRENT -= mark ))
        _normal
        return
      fi
      ;;
  esac
  shift words
  (( CURRENT -= 1 ))
  case $words[1] in
{cases}  esac
}}
if [[ $funcstack[1] == _ebb ]]; then
  _ebb "$@"
else
  compdef _ebb ebb
fi
)";

// Within single quotes; what _arguments and _describe read as a mark has a backslash.
std::string zsh_quoted(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '\'') {
      result += "'\\''";
      continue;
    }
    if (c == '[' || c == ']' || c == ':' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

std::string action(const Values& values) {
  if (values.files) return "_files";
  if (values.directories) return "_files -/";
  if (values.words.empty()) return " ";
  return fmt::format("({})", fmt::join(values.words, " "));
}

std::string specification(const OptionDescription& option) {
  const std::string name = option.names.back();
  if (option.argument) return fmt::format("':{}:{}'", name, action(option.values));
  const std::string help = "[" + zsh_quoted(option.help) + "]";
  if (option.names.size() > 1) {
    return fmt::format("'({})'{{{}}}'{}'", fmt::join(option.names, " "), fmt::join(option.names, ","), help);
  }
  if (option.values.name.empty()) return fmt::format("'{}{}'", name, help);
  return fmt::format("'{}={}:{}:{}'", name, help, zsh_quoted(option.values.name), action(option.values));
}

std::string specifications(const CommandDescription& command, const char* separator) {
  std::vector<std::string> parts;
  for (const OptionDescription& option : command.options) parts.push_back(specification(option));
  return fmt::format("{}", fmt::join(parts, separator));
}

}  // namespace

std::string zsh_completion(const Interface& interface) {
  std::string commands;
  std::string cases;
  std::vector<std::string> programs;
  for (const CommandDescription& command : interface.commands) {
    commands += fmt::format("    '{}:{}'\n", command.name, zsh_quoted(command.help));
    cases +=
        fmt::format("    {})\n      _arguments {}\n      ;;\n", command.name, specifications(command, " \\\n        "));
    if (command.takes_program) programs.push_back(command.name);
  }
  return fmt::format(kZshScript, fmt::arg("commands", commands), fmt::arg("cases", cases),
                     fmt::arg("options", specifications(interface.program, " ")),
                     fmt::arg("programs", fmt::join(programs, " | ")));
}

}  // namespace ebb::cli
