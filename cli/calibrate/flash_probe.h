// The speed of the disk under a directory, as the flash tier uses it: blocks of 2 MiB, several at once, past the page
// cache; reads and writes alone, and at the same time: first what the disk has, then what a program has of it, whose
// kernels keep every core busy while one more thread computes checksums and talks to the disk; and how much longer
// those kernels take for it. With few cores the second is less, and the third much. Leaves nothing behind. Any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace ebb::cli {

// Bytes a second.
struct FlashRates {
  double read = 0, write = 0;              // alone
  double read_mixed = 0, write_mixed = 0;  // of each while the other runs

  // What both directions have together, if that is less than what they have alone; or 0.
  double total() const { return read_mixed + write_mixed < read + write ? read_mixed + write_mixed : 0; }
};

struct FlashSpeeds {
  FlashRates disk;      // on an idle machine
  FlashRates busy;      // beside a program that computes, with checksums
  double toll_bps = 0;  // bytes moved for each second that its kernels take longer (plan/machine.h); 0: they do not
};

// Takes a few seconds. Throws Error with the remedy where direct access or space is missing, or a transfer fails.
FlashSpeeds probe_flash(const std::string& directory, const std::function<void(std::string_view)>& progress);

}  // namespace ebb::cli
