// What the command line takes, read off CLI11's tree: the one source of completions and manual pages. Plain data
// without a reference to the tree; any thread.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace ebb::cli {

// What an option or argument takes, as its name for people and as what a shell offers for it.
struct Values {
  std::string name;                // "SIZE|auto"; empty: a flag
  std::vector<std::string> words;  // "auto"
  bool files = false;
  bool directories = false;
};

struct OptionDescription {
  std::vector<std::string> names;  // "-h", "--help"; one without dashes if it is an argument
  bool argument = false;           // told by its place
  Values values;
  std::string environment;  // the variable that is its default; empty: none
  std::string help;
};

struct CommandDescription {
  std::string name;  // "run"; that of the program itself is "ebb"
  std::string help;
  std::vector<std::string> usage;  // one line for each way
  std::string footer;
  bool takes_program = false;  // after "--"
  std::vector<OptionDescription> options;
};

struct Interface {
  CommandDescription program;
  std::vector<CommandDescription> commands;
};

Interface describe(const CLI::App& app);

}  // namespace ebb::cli
