// The speed of the disk under a directory, as the flash tier uses it: blocks of 2 MiB, several at once, past the page
// cache; reads and writes alone, and at the same time. Leaves nothing behind. Starts threads of its own; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace ebb::cli {

// Bytes a second.
struct FlashSpeeds {
  double read = 0, write = 0;              // alone
  double read_mixed = 0, write_mixed = 0;  // of each while the other runs

  // The lesser of both, as a plan should take them: traffic in both directions is the rule.
  double planned_read() const { return read_mixed > 0 && read_mixed < read ? read_mixed : read; }
  double planned_write() const { return write_mixed > 0 && write_mixed < write ? write_mixed : write; }
};

// Takes a few seconds. Throws Error with the remedy where direct access or space is missing, or a transfer fails.
FlashSpeeds probe_flash(const std::string& directory, const std::function<void(std::string_view)>& progress);

}  // namespace ebb::cli
