// Whether flash can be encrypted here (`ebb run --encrypt`), and how fast one core is at it.
#include <fmt/format.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "doctor/check.h"
#include "drivers/linux/flash/block_cipher.h"
#include "ebb/status.h"
#include "ebb/units.h"

namespace ebb::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kBlockBytes = 2 * kMiB;
constexpr int kRounds = 32;  // some 20 ms

}  // namespace

// Nothing needs it unless it is asked for: its absence is no fault of the machine.
Check check_encryption() {
  Check check{"encryption", "flash encryption", Verdict::kGood, "", "", {}};
  std::unique_ptr<BlockCipher> cipher;
  std::string reason;
  const bool available = BlockCipher::make(cipher, reason) == Status::kOk;
  check.details["available"] = available;
  if (!available) {
    // Messages of the runtime read "cause; remedy".
    const std::size_t end = reason.find("; ");
    check.found = fmt::format("{}; needed for --encrypt alone", reason.substr(0, end));
    if (end != std::string::npos) check.remedy = reason.substr(end + 2);
    return check;
  }
  const std::vector<std::byte> plain(kBlockBytes);
  std::vector<std::byte> bytes(kBlockBytes);
  Clock::duration least = Clock::duration::max();
  for (int round = 0; round < kRounds; ++round) {
    const Clock::time_point start = Clock::now();
    cipher->encrypt({0, 1}, plain, bytes);
    least = std::min(least, Clock::now() - start);
  }
  const double rate = static_cast<double>(kBlockBytes) / std::chrono::duration<double>(least).count();
  check.found = fmt::format("{}, {:.1f} GB/s on one core", BlockCipher::kName, rate / 1e9);
  check.details["bytes_per_second"] = rate;
  return check;
}

}  // namespace ebb::cli
