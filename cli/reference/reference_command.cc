// See reference_command.h.
#include "reference/reference_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>

#include "drivers/linux/system/system_files.h"
#include "ebb/status.h"
#include "reference/completion.h"
#include "reference/interface.h"
#include "reference/man_page.h"

namespace ebb::cli {
namespace {

int print(const std::string& text) {
  if (!write_all(STDOUT_FILENO, text)) throw Error(Status::kInvalid, "standard output cannot be written");
  return 0;
}

void write_page(const std::string& directory, const std::string& page, const std::string& text) {
  const std::string path = directory + "/" + page + ".1";
  std::ofstream file(path);
  if (!(file << text << std::flush)) throw Error(Status::kInvalid, path + ": cannot be written");
}

int write_pages(const Interface& interface, const std::string& directory) {
  const std::string& program = interface.program.name;
  write_page(directory, program, man_page(interface, EBB_VERSION));
  for (const CommandDescription& command : interface.commands) {
    write_page(directory, program + "-" + command.name, man_page(interface, command, EBB_VERSION));
  }
  return 0;
}

}  // namespace

int print_completion(const CLI::App& app, const CompletionArguments& arguments) {
  const Interface interface = describe(app);
  if (arguments.shell == "bash") return print(bash_completion(interface));
  if (arguments.shell == "zsh") return print(zsh_completion(interface));
  if (arguments.shell == "fish") return print(fish_completion(interface));
  throw Error(Status::kInvalid,
              fmt::format("no completion for '{}'; there is one for bash, zsh and fish", arguments.shell));
}

int print_man_page(const CLI::App& app, const ManArguments& arguments) {
  const Interface interface = describe(app);
  if (!arguments.directory.empty()) {
    if (!arguments.command.empty()) throw Error(Status::kInvalid, "--to is for all pages; name no command with it");
    return write_pages(interface, arguments.directory);
  }
  if (arguments.command.empty()) return print(man_page(interface, EBB_VERSION));
  for (const CommandDescription& command : interface.commands) {
    if (command.name == arguments.command) return print(man_page(interface, command, EBB_VERSION));
  }
  throw Error(Status::kInvalid, fmt::format("unknown command '{}'; see ebb --help", arguments.command));
}

}  // namespace ebb::cli
