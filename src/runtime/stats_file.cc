// See stats_file.h.
#include "runtime/stats_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/clock.h"
#include "ebb/status.h"

namespace ebb {

StatsFile::~StatsFile() {
  if (page_ != nullptr) ::munmap(page_, sizeof(StatsPage));
}

void StatsFile::open(const std::string& path, const std::string& policy, const std::string& description) {
  int fd = -1;
  if (!path.empty()) {
    fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ::ftruncate(fd, sizeof(StatsPage)) != 0) {
      const std::string why = std::string(std::strerror(errno)) + (errno == EMFILE ? "; lift ulimit -n" : "");
      if (fd >= 0) ::close(fd);
      throw Error(Status::kInvalid, "statistics file '" + path + "' cannot be written: " + why);
    }
  }
  void* const mapped = ::mmap(nullptr, sizeof(StatsPage), PROT_READ | PROT_WRITE,
                              fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, fd, 0);
  if (fd >= 0) ::close(fd);
  if (mapped == MAP_FAILED) throw Error(Status::kNoMemory, "no memory for the statistics page");
  page_ = static_cast<StatsPage*>(mapped);
  page_->process = static_cast<std::uint64_t>(::getpid());
  std::memset(page_->policy, 0, sizeof page_->policy);
  std::memset(page_->description, 0, sizeof page_->description);
  policy.copy(page_->policy, sizeof page_->policy - 1);
  description.copy(page_->description, sizeof page_->description - 1);
  page_->magic.store(StatsPage::kMagic, std::memory_order_release);
}

void StatsFile::update(const Stats& stats) {
  if (page_ == nullptr) return;
  const std::uint64_t sequence = page_->sequence.load(std::memory_order_relaxed);
  page_->sequence.store(sequence + 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);  // who sees a part of what follows sees that it is odd
  std::memcpy(&page_->stats, &stats, sizeof stats);
  page_->sequence.store(sequence + 2, std::memory_order_release);
}

void StatsFile::end_step(std::uint64_t fetched_bytes) {
  const std::uint64_t begun_ns = std::exchange(last_step_ns_, monotonic_ns());
  const std::uint64_t fetched_before = std::exchange(last_fetched_bytes_, fetched_bytes);
  if (page_ == nullptr) return;
  if (begun_ns == 0) {
    page_->timeline.first_step_ns = last_step_ns_;
    return;
  }
  const std::uint64_t step = page_->step_count.load(std::memory_order_relaxed);
  page_->step_seconds[step % StatsPage::kStepsMax] = static_cast<double>(last_step_ns_ - begun_ns) * 1e-9;
  page_->steps_fetched_bytes.fetch_add(fetched_bytes - fetched_before, std::memory_order_relaxed);
  page_->step_count.store(step + 1, std::memory_order_release);
}

void StatsFile::forget_steps() {
  last_step_ns_ = 0;
  if (page_ == nullptr) return;
  page_->step_count.store(0, std::memory_order_release);
  page_->steps_fetched_bytes.store(0, std::memory_order_relaxed);
  page_->timeline.first_step_ns = 0;
}

std::vector<double> StatsFile::step_seconds() const {
  const std::uint64_t count = page_ == nullptr ? 0 : page_->step_count.load(std::memory_order_acquire);
  std::vector<double> seconds;
  for (std::uint64_t i = count - std::min<std::uint64_t>(count, StatsPage::kStepsMax); i < count; ++i) {
    seconds.push_back(page_->step_seconds[i % StatsPage::kStepsMax]);
  }
  return seconds;
}

}  // namespace ebb
