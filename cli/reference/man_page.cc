// See man_page.h.
#include "reference/man_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <sstream>

namespace ebb::cli {
namespace {

// As it stands: what roff would make a request, a hyphen or a typographic quote of.
std::string escaped(const std::string& text) {
  std::string result;
  if (!text.empty() && (text.front() == '.' || text.front() == '\'')) result = "\\&";
  for (const char c : text) {
    switch (c) {
      case '\\': result += "\\e"; break;
      case '-': result += "\\-"; break;
      case '\'': result += "\\(aq"; break;
      case '`': result += "\\(ga"; break;
      case '"': result += "\\(dq"; break;
      case '~': result += "\\(ti"; break;
      case '^': result += "\\(ha"; break;
      default: result += c;
    }
  }
  return result;
}

std::string bold(const std::string& text) { return "\\fB" + escaped(text) + "\\fR"; }
std::string italic(const std::string& text) { return "\\fI" + escaped(text) + "\\fR"; }

std::string sentence(const std::string& text) {
  return escaped(text) + (!text.empty() && text.back() == '.' ? "" : ".") + "\n";
}

// No date, so that a build can be repeated.
std::string head(const std::string& page, const CommandDescription& command, const std::string& version) {
  std::string title = page;
  std::transform(title.begin(), title.end(), title.begin(), [](unsigned char c) { return std::toupper(c); });
  std::string text = fmt::format(".TH {} 1 \"\" \"Ebbtide {}\" \"Ebbtide\"\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n",
                                 escaped(title), version, escaped(page), escaped(command.help));
  for (std::size_t i = 0; i < command.usage.size(); ++i) {
    text += (i > 0 ? ".br\n" : "") + escaped(command.usage[i]) + "\n";
  }
  return text;
}

std::string list_options(const CommandDescription& command) {
  std::string text = ".SH OPTIONS\n";
  for (const OptionDescription& option : command.options) {
    text += ".TP\n";
    for (std::size_t i = 0; i < option.names.size(); ++i) text += (i > 0 ? ", " : "") + bold(option.names[i]);
    const bool named_by_itself = option.values.name == option.names.front();
    if (!option.values.name.empty() && !named_by_itself) text += " " + italic(option.values.name);
    text += "\n" + sentence(option.help);
    if (!option.environment.empty()) text += "Environment: " + bold(option.environment) + ".\n";
  }
  return text;
}

// Lines are filled; an example stands as it is written.
std::string notes(const std::string& footer) {
  if (footer.empty()) return "";
  const std::string heading = ".SH NOTES\n";
  std::string text = heading;
  std::istringstream stream(footer);
  bool example = false;
  for (std::string line; std::getline(stream, line);) {
    if (line.empty()) continue;
    if (line.rfind("Example", 0) == 0) {
      if (text != heading) text += ".PP\n";
      example = true;
    } else if (example) {
      text += ".br\n";
    }
    text += escaped(line.substr(line.find_first_not_of(' '))) + "\n";
  }
  return text;
}

}  // namespace

std::string man_page(const Interface& interface, const CommandDescription& command, const std::string& version) {
  const std::string& program = interface.program.name;
  return head(program + "-" + command.name, command, version) + list_options(command) + notes(command.footer) +
         ".SH SEE ALSO\n" + bold(program) + "(1)\n";
}

std::string man_page(const Interface& interface, const std::string& version) {
  const CommandDescription& program = interface.program;
  std::string text = head(program.name, program, version) + ".SH COMMANDS\n";
  std::string see;
  for (const CommandDescription& command : interface.commands) {
    text += ".TP\n" + bold(command.name) + "\n" + sentence(command.help);
    see += (see.empty() ? "" : ",\n") + bold(program.name + "-" + command.name) + "(1)";
  }
  return text + list_options(program) +
         ".SH EXIT STATUS\n2 for a usage error, with one line on standard error. The pages of the commands say "
         "more.\n" +
         ".SH SEE ALSO\n" + see + "\n";
}

}  // namespace ebb::cli
