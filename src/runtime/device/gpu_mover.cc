// GpuRuntime: its thread, which alone talks to flash, and hashes what goes there and comes from there.
#include <array>

#include "base/clock.h"
#include "base/digest.h"
#include "runtime/device/gpu_runtime.h"

namespace ebb {
namespace {

constexpr std::size_t kPollBatch = 16;
constexpr std::chrono::milliseconds kMoverIdleWait{50};
constexpr std::chrono::microseconds kMoverDeviceWait{200};  // while a buffer is about to come from the device
constexpr std::uint64_t kPublishEveryNs = 100'000'000;

}  // namespace

void GpuRuntime::move_loop() {
  std::uint64_t published_ns = 0;
  Lock lock(mutex_);
  while (!stopping_) {
    if (core_.budget().extents_wanted() > 0) grow_flash(lock);
    queue_.ready(jobs_);
    const bool device_works = queue_.waits() && device_->failure().empty();
    lock.unlock();
    const bool idle = jobs_.empty();
    for (const TierQueue::Job& job : jobs_) submit(job);
    jobs_.clear();
    collect();
    if (idle && results_.empty()) {
      flash_->wait(device_works ? std::chrono::nanoseconds(kMoverDeviceWait)
                                : std::chrono::nanoseconds(kMoverIdleWait));
      collect();
    }
    lock.lock();
    settle(lock);
    const std::uint64_t now = monotonic_ns();
    if (now - published_ns > kPublishEveryNs) {
      published_ns = now;
      timelines_->poll();
      stats_file_.update(read_stats());
    }
  }
  stats_file_.update(read_stats());
}

// Hashes what is to be written, and gives it to flash unless it is there already; or lets flash read.
void GpuRuntime::submit(const TierQueue::Job& job) {
  TierQueue::Job& kept = on_flash_[job.request.token];
  kept = job;
  const bool write = job.request.kind == FlashRequest::Kind::kWrite;
  if (write) {
    const Digest now = digest(job.staging);
    if (job.request.has_expected && now == job.request.expected) {
      results_.push_back({job.request.token, Status::kOk, true, now});
      return;
    }
    kept.request.expected = now;
  }
  flash_->submit({write, job.request.token, job.offset, job.staging});
}

void GpuRuntime::collect() {
  std::array<RawCompletion, kPollBatch> arrived;
  const std::size_t count = flash_->poll(arrived);
  for (const RawCompletion& completion : std::span(arrived).first(count)) {
    const TierQueue::Job& job = on_flash_[completion.token];
    FlashCompletion result{completion.token, completion.status, false, job.request.expected};
    if (job.request.kind == FlashRequest::Kind::kRead && result.status == Status::kOk &&
        digest(job.staging) != job.request.expected) {
      result.status = Status::kCorrupt;
    }
    results_.push_back(result);
  }
}

// Tells the core what came of it.
void GpuRuntime::settle(Lock&) {
  if (results_.empty()) return;
  for (const FlashCompletion& result : results_) queue_.finish(on_flash_[result.token], result);
  results_.clear();
  if (device_->failure().empty()) advance();
  changed_.notify_all();
}

void GpuRuntime::grow_flash(Lock& lock) {
  const std::uint32_t now = core_.extents().capacity();
  const std::uint32_t wanted = core_.budget().extents_wanted();
  lock.unlock();
  const std::uint32_t grown = Budget::grown(
      now, wanted, [&](std::uint32_t count) { return flash_->reserve(count * core_.block_bytes()) == Status::kOk; });
  lock.lock();
  core_.budget().set_extents(grown, grown > now);
  if (device_->failure().empty()) advance();
  changed_.notify_all();
}

}  // namespace ebb
