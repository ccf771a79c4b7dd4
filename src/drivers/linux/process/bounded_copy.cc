// See bounded_copy.h.
#include "drivers/linux/process/bounded_copy.h"

#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/internal_thread.h"
#include "drivers/linux/process/process_map.h"

namespace ebb {
namespace {

struct Job {
  std::uintptr_t address;
  bool write;
  std::vector<std::byte> buffer;  // of the job's own: the caller may be gone
  std::mutex mutex;
  std::condition_variable ended;
  bool done = false;
  long result = -1;
  int error = 0;
};

void work(Job& job) {
  errno = 0;
  const long result = job.write ? write_process(job.address, job.buffer.data(), job.buffer.size())
                                : read_process(job.buffer.data(), job.address, job.buffer.size());
  const int error = errno;
  const std::lock_guard lock(job.mutex);
  job.result = result;
  job.error = error;
  job.done = true;
  job.ended.notify_all();
}

}  // namespace

long bounded_copy(std::byte* own, std::uintptr_t address, std::size_t bytes, bool write,
                  std::chrono::milliseconds timeout, int& error) {
  const auto job = std::make_shared<Job>();
  job->address = address;
  job->write = write;
  job->buffer.resize(bytes);
  if (write) std::memcpy(job->buffer.data(), own, bytes);
  std::thread copier;
  if (start_internal_thread(
          "ebb-copy", [job] { work(*job); }, copier) != Status::kOk) {
    error = EAGAIN;  // not now
    return -1;
  }
  copier.detach();
  std::unique_lock lock(job->mutex);
  if (!job->ended.wait_for(lock, timeout, [&] { return job->done; })) {
    error = ETIMEDOUT;
    return -1;
  }
  error = job->error;
  if (!write && job->result > 0) std::memcpy(own, job->buffer.data(), static_cast<std::size_t>(job->result));
  return job->result;
}

}  // namespace ebb
