// Device: kernels that run in parts on several workers. See parallel.h.
#include "stream/parallel.h"

#include <utility>

namespace ebb {

// The one begun last: it may be a part of another.
Device::Job* Device::job_to_help() {
  for (auto job = jobs_.rbegin(); job != jobs_.rend(); ++job) {
    if ((*job)->parts_left()) return *job;
  }
  return nullptr;
}

void Device::help(Lock& lock, Job& job) {
  ++job.helpers;
  lock.unlock();
  const std::exception_ptr error = job.run();
  lock.lock();
  if (error != nullptr && job.error == nullptr) job.error = error;
  if (--job.helpers == 0) over_.notify_all();
}

void Device::parallel_for(std::size_t count, std::size_t grain,
                          const std::function<void(std::size_t, std::size_t)>& body) {
  Job job(count, grain, body);
  {
    const Lock lock(mutex_);
    jobs_.push_back(&job);
  }
  work_came_.notify_all();
  const std::exception_ptr error = job.run();
  Lock lock(mutex_);
  std::erase(jobs_, &job);
  over_.wait(lock, [&] { return job.helpers == 0; });
  if (error != nullptr && job.error == nullptr) job.error = error;
  const std::exception_ptr first = std::exchange(job.error, nullptr);
  lock.unlock();
  if (first != nullptr) std::rethrow_exception(first);
}

void parallel_for(std::size_t count, std::size_t grain, const std::function<void(std::size_t, std::size_t)>& body) {
  if (grain == 0) throw Error(Status::kInvalid, "parallel_for(): a grain of 0 makes no progress; use at least 1");
  if (count == 0) return;
  Device* const device = Device::current();
  if (device != nullptr && count > grain) return device->parallel_for(count, grain, body);
  for (std::size_t begin = 0; begin < count; begin += std::min(grain, count - begin)) {
    body(begin, begin + std::min(grain, count - begin));
  }
}

}  // namespace ebb
