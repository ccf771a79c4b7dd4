// See machine_memory.h. A limit may sit on any ancestor of our control group, so the whole path up to what is mounted
// is walked, for the unified hierarchy (v2) and for the memory controller of the old one (v1) alike.
#include "drivers/linux/system/machine_memory.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <sstream>
#include <string>
#include <utility>

#include "drivers/linux/system/system_files.h"

namespace ebb {
namespace {

// v1 writes "no limit" as the largest multiple of a page; nothing real comes near this.
constexpr std::uint64_t kNoLimitBytes = 1ull << 60;

struct Hierarchy {
  const char* limit_file;
  const char* throttle_file;  // where exceeding slows the group down to a crawl; null in v1
  const char* usage_file;
  const char* all_below;  // what its sums begin with in memory.stat
};
constexpr Hierarchy kUnified{"memory.max", "memory.high", "memory.current", ""};
constexpr Hierarchy kLegacy{"memory.limit_in_bytes", nullptr, "memory.usage_in_bytes", "total_"};

struct Mount {
  std::string root;
  std::string point;
};

std::optional<std::uint64_t> number_in(const std::string& path) {
  const auto text = read_line(path);
  if (!text) return std::nullopt;
  std::uint64_t value = 0;
  const auto result = std::from_chars(text->data(), text->data() + text->size(), value);
  if (result.ec != std::errc()) return std::nullopt;  // v2 writes "max"
  return value;
}

// The number that follows `key` at the beginning of a line.
std::uint64_t value_of(const std::string& text, const std::string& key) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind(key, 0) == 0) {
      std::istringstream rest(line.substr(key.size()));
      std::uint64_t value = 0;
      rest >> value;
      return value;
    }
  }
  return 0;
}

// Where the hierarchy with memory control is mounted. `type` is "cgroup2", or "cgroup" for the v1 memory controller.
std::optional<Mount> find_mount(const std::string& root, const std::string& type) {
  const auto table = read_text(root + "/proc/self/mountinfo");
  if (!table) return std::nullopt;
  std::istringstream lines(*table);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    const auto before = split(line.substr(0, dash), ' ');
    const auto after = split(line.substr(dash + 3), ' ');
    if (before.size() < 5 || after.size() < 3 || after[0] != type) continue;
    if (type == "cgroup") {
      const auto controllers = split(after[2], ',');
      if (std::find(controllers.begin(), controllers.end(), "memory") == controllers.end()) continue;
    }
    return Mount{before[3], before[4]};
  }
  return std::nullopt;
}

// Our path in the hierarchy: the line "0::PATH" for v2, "N:…memory…:PATH" for v1.
std::optional<std::string> find_group(const std::string& root, bool unified) {
  const auto table = read_text(root + "/proc/self/cgroup");
  if (!table) return std::nullopt;
  std::istringstream lines(*table);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':');
    if (first == std::string::npos) continue;
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const auto names = split(controllers, ',');
    const bool memory = std::find(names.begin(), names.end(), "memory") != names.end();
    if (unified ? controllers.empty() : memory) return line.substr(second + 1);
  }
  return std::nullopt;
}

// Page cache counts as free, as it does in MemAvailable: that of files, whether used lately or not, but no tmpfs.
std::uint64_t droppable_bytes(const std::string& directory, const Hierarchy& hierarchy) {
  const std::string table = read_text(directory + "/memory.stat").value_or("");
  const std::string prefix = hierarchy.all_below;
  return value_of(table, prefix + "inactive_file ") + value_of(table, prefix + "active_file ");
}

void apply_group(const std::string& directory, const Hierarchy& hierarchy, MachineMemory& memory) {
  for (const char* file : {hierarchy.limit_file, hierarchy.throttle_file}) {
    if (file == nullptr) continue;
    const auto limit = number_in(directory + "/" + file);
    if (!limit || *limit >= kNoLimitBytes) continue;
    const std::uint64_t usage = number_in(directory + "/" + hierarchy.usage_file).value_or(0);
    const std::uint64_t used = usage - std::min(usage, droppable_bytes(directory, hierarchy));
    const std::uint64_t left = *limit > used ? *limit - used : 0;
    memory.limits.push_back({*limit, left});
    memory.limit_bytes = std::min(*limit, memory.limit_bytes.value_or(*limit));
    memory.left_bytes = std::min(left, memory.left_bytes.value_or(left));
  }
}

// Of the line "some avg10=0.00 avg60=0.00 avg300=0.00 total=MICROSECONDS".
std::optional<std::uint64_t> stall_in(const std::string& path) {
  const std::string table = read_text(path).value_or("");
  const std::size_t total = table.rfind("some ", 0) == 0 ? table.find("total=") : std::string::npos;
  if (total == std::string::npos) return std::nullopt;
  std::uint64_t value = 0;
  const char* const begin = table.data() + total + 6;
  if (std::from_chars(begin, table.data() + table.size(), value).ec != std::errc()) return std::nullopt;
  return value;
}

}  // namespace

std::uint64_t MachineMemory::usable_bytes() const {
  return std::min(available_bytes, left_bytes.value_or(std::numeric_limits<std::uint64_t>::max()));
}

std::uint64_t MachineMemory::default_budget_bytes() const { return usable_bytes() / 10 * 8; }

std::uint64_t MachineMemory::most_bytes() const { return std::min(total_bytes, limit_bytes.value_or(total_bytes)); }

MemoryReader::MemoryReader(std::string root) : root_(std::move(root)) {
  find_groups(true);
  if (!groups_.empty()) pressure_ = groups_.front().directory + "/memory.pressure";
  find_groups(false);
}

void MemoryReader::find_groups(bool unified) {
  const auto mount = find_mount(root_, unified ? "cgroup2" : "cgroup");
  const auto group = find_group(root_, unified);
  if (!mount || !group) return;
  // Inside a container the mount may show only our own subtree, while the group's path starts at the real root.
  std::string path = *group == "/" ? "" : *group;
  if (mount->root != "/") {
    const bool inside = path.rfind(mount->root, 0) == 0;
    path = inside ? path.substr(mount->root.size()) : "";
  }
  for (;;) {
    groups_.push_back({root_ + mount->point + path, unified});
    if (path.empty()) return;
    path.resize(path.find_last_of('/') == std::string::npos ? 0 : path.find_last_of('/'));
  }
}

MachineMemory MemoryReader::read() const {
  MachineMemory memory;
  const std::string table = read_text(root_ + "/proc/meminfo").value_or("");
  memory.total_bytes = value_of(table, "MemTotal:") * 1024;
  memory.available_bytes = value_of(table, "MemAvailable:") * 1024;
  memory.swap_bytes = value_of(table, "SwapTotal:") * 1024;
  for (const Group& group : groups_) apply_group(group.directory, group.unified ? kUnified : kLegacy, memory);
  memory.stall_us = stall_in(root_ + "/proc/pressure/memory");
  if (!pressure_.empty()) memory.group_stall_us = stall_in(pressure_);
  return memory;
}

MachineMemory read_machine_memory() { return MemoryReader().read(); }

}  // namespace ebb
