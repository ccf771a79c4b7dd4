// What the flash tier gets: io_uring, the directory and its file system, and the speed of the disk under it. The
// measurement uses the runtime's own unnamed file, past the page cache: it shows the disk and leaves nothing behind.
#include <fmt/format.h>
#include <liburing.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <span>

#include "doctor/check.h"
#include "drivers/linux/flash/flash_file.h"
#include "ebb/status.h"
#include "ebb/units.h"
#include "flash_directory.h"

namespace ebb::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kMeasureBytes = 256 * kMiB;
constexpr std::size_t kPieceBytes = 4 * kMiB;  // large enough that one request at a time shows the disk's bandwidth
constexpr std::size_t kAlignment = 4096;
constexpr std::chrono::seconds kDirectionLimit{10};  // then the speed of what was done counts
constexpr double kSlowBytesPerSecond = 200e6;
constexpr std::uint64_t kFreeBytesWanted = kGiB;

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};
using Piece = std::unique_ptr<std::byte, Free>;

// Random bytes, since some disks and file systems compress.
Piece make_piece() {
  Piece piece(static_cast<std::byte*>(std::aligned_alloc(kAlignment, kPieceBytes)));
  std::mt19937_64 random(1);
  for (std::size_t at = 0; piece && at < kPieceBytes; at += sizeof(std::uint64_t)) {
    const std::uint64_t word = random();
    std::memcpy(piece.get() + at, &word, sizeof word);
  }
  return piece;
}

struct Speed {
  double bytes_per_second = 0;
  std::uint64_t bytes = 0;
};

// Nothing when the first transfer already failed.
template <typename Transfer>
std::optional<Speed> measure(std::uint64_t bytes_max, const Transfer& transfer) {
  const Clock::time_point start = Clock::now();
  std::uint64_t done = 0;
  while (done < bytes_max && Clock::now() - start < kDirectionLimit && transfer(done) == Status::kOk) {
    done += kPieceBytes;
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  if (done == 0 || seconds <= 0) return std::nullopt;
  return Speed{static_cast<double>(done) / seconds, done};
}

const char* uring_cause(int error) {
  switch (error) {
    case ENOSYS: return "the kernel lacks it, or a seccomp filter hides it, as containers do";
    case EPERM:
    case EACCES: return "sysctl kernel.io_uring_disabled is set, or a seccomp filter forbids it, as containers do";
    case ENOMEM: return "the limit on locked memory is too low for this kernel";
    default: return "unexpected";
  }
}

Check check_directory(const FlashFacts& facts) {
  Check check{"flash_directory", "flash directory", Verdict::kGood, "", "", {}};
  check.found = fmt::format("{} ({})", facts.directory, facts.file_system);
  check.details = {{"directory", facts.directory}, {"file_system", facts.file_system}, {"ram_disk", facts.ram_disk}};
  if (!facts.problem.empty()) {
    check.verdict = Verdict::kBlocking;
    // Messages of the runtime read "cause; remedy".
    const std::size_t end = facts.problem.find("; ");
    check.found = facts.problem.substr(0, end);
    check.remedy = end == std::string::npos ? "" : facts.problem.substr(end + 2);
  } else if (facts.on_network) {
    check.verdict = Verdict::kWarning;
    check.remedy = "a network file system is slow and may stall for long; prefer a local disk";
  }
  return check;
}

Check check_space(const FlashFacts& facts) {
  Check check{"flash_space", "flash space", Verdict::kGood, "", "", {}};
  check.found = fmt::format("{} free", format_size(facts.free_bytes));
  check.details["free_bytes"] = facts.free_bytes;
  if (facts.free_bytes < kFreeBytesWanted) {
    check.verdict = Verdict::kWarning;
    check.remedy = "free some space, or name a larger disk with --flash DIR";
  }
  return check;
}

Check check_features(const FlashFacts& facts) {
  Check check{"flash_features", "flash features", Verdict::kGood, "", "", {}};
  check.found = fmt::format("unnamed files (O_TMPFILE): {}; direct access (O_DIRECT): {}",
                            facts.unnamed_files ? "yes" : "no", facts.direct_io ? "yes" : "no");
  check.details = {{"o_tmpfile", facts.unnamed_files}, {"o_direct", facts.direct_io}};
  if (!facts.unnamed_files || !facts.direct_io) {
    check.verdict = Verdict::kWarning;
    check.remedy = "a directory on ext4, xfs or btrfs offers both; without O_DIRECT the page cache takes memory too";
  }
  return check;
}

}  // namespace

Check check_io_uring() {
  io_uring ring{};
  const int result = ::io_uring_queue_init(8, &ring, 0);
  Check check{"io_uring", "io_uring", Verdict::kGood, "available", "", {}};
  check.details["available"] = result == 0;
  if (result == 0) {
    ::io_uring_queue_exit(&ring);
    return check;
  }
  check.verdict = Verdict::kWarning;
  check.found = fmt::format("not available: {} ({})", std::strerror(-result), uring_cause(-result));
  check.remedy =
      "set sysctl kernel.io_uring_disabled=0, or allow the io_uring calls in the container's seccomp profile";
  return check;
}

std::vector<Check> check_flash(const std::string& directory) {
  const FlashFacts facts = inspect_flash(directory);
  std::vector<Check> checks{check_directory(facts)};
  if (facts.problem.empty()) {
    checks.push_back(check_space(facts));
    checks.push_back(check_features(facts));
  }
  return checks;
}

Check check_flash_speed(const std::string& directory) {
  Check check{"flash_speed", "flash speed", Verdict::kWarning, "", "", {}};
  const FlashFacts facts = inspect_flash(directory);
  if (facts.free_bytes < 2 * kMeasureBytes) {
    check.found = "not measured: too little space is free";
    return check;
  }
  FlashFile file = FlashFile::open(facts.directory);
  const Piece piece = make_piece();
  if (!file.direct() || !piece || file.grow(kMeasureBytes) != Status::kOk) {
    check.found = "not measured: O_DIRECT does not work here, or the space cannot be had";
    return check;
  }
  const std::span<std::byte> buffer(piece.get(), kPieceBytes);
  const auto write = measure(kMeasureBytes, [&](std::uint64_t at) { return file.write(at, buffer); });
  const auto read = measure(write ? write->bytes : 0, [&](std::uint64_t at) { return file.read(at, buffer); });
  if (!write || !read) {
    check.found = "not measured: a transfer failed";
    check.remedy = "the disk may be failing: see the kernel's log, or name another with --flash DIR";
    return check;
  }
  check.verdict = Verdict::kGood;
  check.found =
      fmt::format("writes {:.0f} MB/s, reads {:.0f} MB/s", write->bytes_per_second / 1e6, read->bytes_per_second / 1e6);
  check.details = {{"write_bytes_per_second", write->bytes_per_second},
                   {"read_bytes_per_second", read->bytes_per_second},
                   {"measured_bytes", write->bytes}};
  if (std::min(write->bytes_per_second, read->bytes_per_second) < kSlowBytesPerSecond) {
    check.verdict = Verdict::kWarning;
    check.remedy = "slow: programs will wait for this disk; an NVMe drive takes gigabytes a second";
  }
  return check;
}

}  // namespace ebb::cli
