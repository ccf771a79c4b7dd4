// See stats_reader.h. The page is read with pread rather than through a mapping of our own: the kernel serves both from
// the same pages, and a mapping would turn a file that its writer truncates into a SIGBUS in `ebb`.
//
// Consistency is that of a sequence lock: even sequence, copy, same sequence. Each of the three is its own system call,
// which orders nothing by itself: a fence does.
#include "run/stats_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <memory>
#include <type_traits>

#include "ebb/stats_page.h"

namespace ebb::cli {
namespace {

constexpr int kTriesMax = 100;
constexpr std::size_t kRecentSteps = 15;
constexpr std::size_t kHeaderBytes = offsetof(StatsPage, step_seconds);

static_assert(std::is_standard_layout_v<StatsPage>, "the page is read by offset");
static_assert(std::is_trivially_copyable_v<Stats>, "the statistics are copied as bytes");
static_assert(sizeof(std::atomic<std::uint64_t>) == sizeof(std::uint64_t), "atomics in the page are plain words");

// What is read later is not older.
bool read_at(const FileDescriptor& file, std::size_t offset, void* target, std::size_t bytes) {
  const ssize_t read = ::pread(file.get(), target, bytes, static_cast<off_t>(offset));
  std::atomic_thread_fence(std::memory_order_acquire);
  return read == static_cast<ssize_t>(bytes);
}

template <typename T>
T field(const std::array<char, kHeaderBytes>& header, std::size_t offset) {
  T value;
  std::memcpy(&value, header.data() + offset, sizeof value);
  return value;
}

std::string text_field(const char* begin, std::size_t bytes) { return std::string(begin, ::strnlen(begin, bytes)); }

bool valid(const FileDescriptor& file) {
  std::uint64_t magic = 0;
  return file.valid() && read_at(file, offsetof(StatsPage, magic), &magic, sizeof magic) && magic == StatsPage::kMagic;
}

FileDescriptor open_valid(const std::string& path) {
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!valid(file)) file.reset();
  return file;
}

// Empty where there is none, as of an older writer.
WaitReport read_waits(const FileDescriptor& file) {
  const auto table = std::make_unique<WaitTable>();
  if (!read_at(file, offsetof(StatsPage, waits), table.get(), sizeof *table)) return {};
  return report_of(*table);
}

std::optional<StatsReading> read_page(const FileDescriptor& file, bool accept_torn, bool with_waits) {
  if (!file.valid()) return std::nullopt;
  std::array<char, kHeaderBytes> header{};
  bool consistent = false;
  for (int tries = 0; tries < kTriesMax && !consistent; ++tries) {
    std::uint64_t before = 0;
    std::uint64_t after = 0;
    const bool read = read_at(file, offsetof(StatsPage, sequence), &before, sizeof before) &&
                      read_at(file, 0, header.data(), header.size()) &&
                      read_at(file, offsetof(StatsPage, sequence), &after, sizeof after);
    if (!read) return std::nullopt;
    consistent = before == after && before % 2 == 0;
  }
  if (!consistent && !accept_torn) return std::nullopt;
  StatsReading reading;
  reading.process = field<std::uint64_t>(header, offsetof(StatsPage, process));
  reading.stats = field<Stats>(header, offsetof(StatsPage, stats));
  reading.policy = text_field(header.data() + offsetof(StatsPage, policy), sizeof StatsPage::policy);
  reading.description = text_field(header.data() + offsetof(StatsPage, description), sizeof StatsPage::description);
  reading.steps_fetched_bytes = field<std::uint64_t>(header, offsetof(StatsPage, steps_fetched_bytes));
  reading.step_count = field<std::uint64_t>(header, offsetof(StatsPage, step_count));
  if (reading.step_count > 0) {
    // As far as they lie one behind the other.
    const std::size_t last = (reading.step_count - 1) % StatsPage::kStepsMax;
    const std::size_t count = std::min(last + 1, kRecentSteps);
    reading.recent_step_seconds.resize(count);
    const bool read = read_at(file, kHeaderBytes + (last + 1 - count) * sizeof(double),
                              reading.recent_step_seconds.data(), count * sizeof(double));
    if (!read) reading.recent_step_seconds.assign(1, 0);
  }
  if (with_waits) reading.waits = read_waits(file);
  return reading;
}

std::optional<StatsReading> read_named(const std::string& path, bool ended) {
  std::optional<StatsReading> reading = read_page(open_valid(path), ended, ended);
  if (reading) reading->page = path;
  return reading;
}

}  // namespace

std::optional<StatsReading> read_stats(const FileDescriptor& file) {
  return valid(file) ? read_page(file, false, true) : std::nullopt;
}

std::optional<StatsReading> read_stats(const std::string& path) { return read_named(path, false); }

std::optional<StatsReading> read_final_stats(const std::string& path) { return read_named(path, true); }

std::unique_ptr<RunTimeline> read_timeline(const std::string& path) {
  const FileDescriptor file = open_valid(path);
  auto timeline = std::make_unique<RunTimeline>();
  if (!file.valid() || !read_at(file, offsetof(StatsPage, timeline), timeline.get(), sizeof *timeline)) return nullptr;
  const bool sound = timeline->samples <= RunTimeline::kSamplesMax && timeline->rows <= RunTimeline::kRowsMax;
  if (!sound) timeline.reset();
  return timeline;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

std::vector<double> read_step_seconds(const std::string& path) {
  const FileDescriptor file = open_valid(path);
  std::uint64_t total = 0;
  if (!file.valid() || !read_at(file, offsetof(StatsPage, step_count), &total, sizeof total)) return {};
  const std::size_t count = static_cast<std::size_t>(std::min<std::uint64_t>(total, StatsPage::kStepsMax));
  std::vector<double> ring(count);
  if (count == 0 || !read_at(file, kHeaderBytes, ring.data(), count * sizeof(double))) return {};
  if (total > count) {
    const auto oldest = static_cast<std::ptrdiff_t>(total % StatsPage::kStepsMax);
    std::rotate(ring.begin(), ring.begin() + oldest, ring.end());
  }
  return ring;
}

}  // namespace ebb::cli
