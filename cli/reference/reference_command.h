// `ebb completion` and `ebb man`: print what the command line's own tree says, for shells and for man.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace ebb::cli {

struct CompletionArguments {
  std::string shell;
};

struct ManArguments {
  std::string command;    // empty: the program itself
  std::string directory;  // not empty: all pages go there
};

// Both return the exit code and throw Error.
int print_completion(const CLI::App& app, const CompletionArguments& arguments);
int print_man_page(const CLI::App& app, const ManArguments& arguments);

}  // namespace ebb::cli
