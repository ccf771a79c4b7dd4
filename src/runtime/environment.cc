// Options from EBB_* variables.
#include <cstdlib>

#include "ebb/options.h"
#include "ebb/status.h"

namespace ebb {
namespace {

const char* variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

void read_size(const char* name, std::uint64_t& size) {
  const char* text = variable(name);
  if (text == nullptr) return;
  try {
    size = parse_size(text);
  } catch (const Error& error) {
    throw Error(Status::kInvalid, std::string(name) + ": " + error.what());
  }
}

void read_text(const char* name, std::string& text) {
  if (const char* value = variable(name); value != nullptr) text = value;
}

}  // namespace

void parse_flash(const std::string& text, Options& options) {
  // The last colon separates a size only if a digit follows: directories may hold colons.
  const std::size_t colon = text.rfind(':');
  const bool sized = colon != std::string::npos && colon + 1 < text.size() && text[colon + 1] >= '0' &&
                     text[colon + 1] <= '9' && text.find('/', colon) == std::string::npos;
  options.flash = sized ? text.substr(0, colon) : text;
  if (sized) options.flash_bytes = parse_size(text.substr(colon + 1));
  if (options.flash.empty())
    throw Error(Status::kInvalid, "flash '" + text + "' names no directory; write DIR or DIR:SIZE");
}

Options options_from_environment() {
  Options options;
  read_size("EBB_MEMORY", options.memory);
  read_size("EBB_BLOCK", options.block_bytes);
  read_size("EBB_MANAGED_MIN", options.managed_bytes_min);
  read_text("EBB_POLICY", options.policy);
  read_text("EBB_STATS", options.stats_path);
  read_text("EBB_RECORD", options.record);
  read_text("EBB_MEMORY_DRIVER", options.memory_driver);
  read_text("EBB_FLASH_DRIVER", options.flash_driver);
  if (const char* flash = variable("EBB_FLASH"); flash != nullptr) parse_flash(flash, options);
  return options;
}

}  // namespace ebb
