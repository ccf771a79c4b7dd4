// See thread_flash.h.
#include "drivers/linux/flash/thread_flash.h"

#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/bounded_queue.h"
#include "base/check.h"
#include "base/internal_thread.h"

namespace ebb {

struct ThreadFlash::Pool {
  explicit Pool(std::uint32_t size) : depth(size), requests(size), completions(size) {}

  const std::uint32_t depth;
  const pid_t process = ::getpid();
  std::mutex mutex;
  std::condition_variable work_came;    // or the end
  std::condition_variable result_came;  // or a wake-up
  BoundedQueue<RawRequest> requests;
  BoundedQueue<RawCompletion> completions;
  std::uint32_t in_flight = 0;
  bool woken = false;
  bool ending = false;
  std::vector<std::thread> threads;
};

ThreadFlash::ThreadFlash() = default;

Status ThreadFlash::make(FlashFile& file, std::uint32_t depth, std::unique_ptr<ThreadFlash>& flash) {
  std::unique_ptr<ThreadFlash> made(new ThreadFlash);
  made->pool_ = std::make_unique<Pool>(depth);
  made->pool_->threads.reserve(kThreads);
  for (std::uint32_t i = 0; i < kThreads; ++i) {
    std::thread thread;
    const Status status = start_internal_thread(
        "ebb-flash", [self = made.get()] { self->work(); }, thread);
    if (status != Status::kOk && i == 0) return status;
    if (status != Status::kOk) break;  // fewer are slower, and as good
    made->pool_->threads.push_back(std::move(thread));
  }
  made->file_ = std::move(file);
  flash = std::move(made);
  return Status::kOk;
}

ThreadFlash::~ThreadFlash() {
  if (pool_->process != ::getpid()) {
    // The threads are the parent's, and may have held the lock when this copy of it was made: neither is ours to end.
    static_cast<void>(pool_.release());
    return;
  }
  {
    const std::lock_guard lock(pool_->mutex);
    pool_->ending = true;
  }
  pool_->work_came.notify_all();
  for (std::thread& thread : pool_->threads) thread.join();  // each ends when there are no requests left
}

std::uint32_t ThreadFlash::depth() const { return pool_->depth; }

void ThreadFlash::submit(const RawRequest& request) {
  {
    const std::lock_guard lock(pool_->mutex);
    EBB_CHECK_LT(pool_->in_flight, pool_->depth);
    ++pool_->in_flight;
    pool_->requests.push(request);
  }
  pool_->work_came.notify_one();
}

void ThreadFlash::work() {
  Pool& pool = *pool_;
  std::unique_lock lock(pool.mutex);
  for (;;) {
    pool.work_came.wait(lock, [&] { return pool.ending || !pool.requests.empty(); });
    if (pool.requests.empty()) return;
    const RawRequest request = pool.requests.pop();
    lock.unlock();
    const Status status = file_.move(request);
    lock.lock();
    pool.completions.push({request.token, status});
    pool.result_came.notify_one();
  }
}

std::size_t ThreadFlash::poll(std::span<RawCompletion> completions) {
  const std::lock_guard lock(pool_->mutex);
  std::size_t found = 0;
  while (found < completions.size() && !pool_->completions.empty()) {
    completions[found++] = pool_->completions.pop();
    --pool_->in_flight;
  }
  return found;
}

void ThreadFlash::wait(std::chrono::nanoseconds timeout) {
  std::unique_lock lock(pool_->mutex);
  pool_->result_came.wait_for(lock, timeout, [&] { return pool_->woken || !pool_->completions.empty(); });
  pool_->woken = false;
}

void ThreadFlash::wake() {
  {
    const std::lock_guard lock(pool_->mutex);
    pool_->woken = true;
  }
  pool_->result_came.notify_one();
}

}  // namespace ebb
