// The completion of fish, 3.1 or later.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/completion.h"

namespace ebb::cli {
namespace {

constexpr const char* kBegin = R"(# Completion of ebb for fish; made by: ebb completion fish
function __ebb_first
    test (count (commandline -opc)) -eq 1
end

function __ebb_in
    set -l words (commandline -opc)
    test (count $words) -ge 2; and test "$words[2]" = $argv[1]; and not contains -- -- $words
end

function __ebb_after_mark
    set -l words (commandline -opc)
    test (count $words) -ge 2; and contains -- "$words[2]" $argv; and contains -- -- $words
end

function __ebb_program
    set -l words (commandline -opc)
    set -l mark (contains -i -- -- $words)
    set -e words[1..$mark]
    complete -C (string join ' ' -- (string escape -- $words) (commandline -ct))
end

complete -c ebb -f
)";

std::string fish_quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') result += '\\';
    result += c;
  }
  return result + "'";
}

std::string offered(const Values& values) {
  if (values.files) return " -r -F";
  if (values.directories) return " -x -a '(__fish_complete_directories)'";
  if (values.words.empty()) return values.name.empty() ? "" : " -x";
  return fmt::format(" -x -a '{}'", fmt::join(values.words, " "));
}

std::string line(const std::string& condition, const OptionDescription& option) {
  std::string text = fmt::format("complete -c ebb -n '{}'", condition);
  if (option.argument) {
    if (option.values.files) return text + " -F\n";
    return fmt::format("{} -a '{}' -d {}\n", text, fmt::join(option.values.words, " "), fish_quoted(option.help));
  }
  for (const std::string& name : option.names) {
    text += name.rfind("--", 0) == 0 ? " -l " + name.substr(2) : " -s " + name.substr(1);
  }
  return fmt::format("{}{} -d {}\n", text, offered(option.values), fish_quoted(option.help));
}

}  // namespace

std::string fish_completion(const Interface& interface) {
  std::string script = kBegin;
  std::vector<std::string> programs;
  for (const OptionDescription& option : interface.program.options) script += line("__ebb_first", option);
  for (const CommandDescription& command : interface.commands) {
    script += fmt::format("complete -c ebb -n __ebb_first -a {} -d {}\n", command.name, fish_quoted(command.help));
    for (const OptionDescription& option : command.options) script += line("__ebb_in " + command.name, option);
    if (command.takes_program) programs.push_back(command.name);
  }
  script += fmt::format("complete -c ebb -n '__ebb_after_mark {}' -x -a '(__ebb_program)'\n", fmt::join(programs, " "));
  return script;
}

}  // namespace ebb::cli
