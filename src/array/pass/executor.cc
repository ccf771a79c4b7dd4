// A pool of threads that take task numbers from a counter.
#include "array/pass/executor.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "base/processors.h"
#include "ebb/array.h"

namespace ebb {
namespace array {
namespace {

constexpr int kThreadsMax = 64;

std::atomic<int> requested_threads{0};

int wanted_threads() {
  const int requested = requested_threads.load(std::memory_order_relaxed);
  if (requested > 0) return std::min(requested, kThreadsMax);
  static const int allowed = std::clamp(static_cast<int>(usable_processors()), 1, kThreadsMax);
  return allowed;
}

struct Job {
  const std::function<void(std::int64_t)>* task;
  std::int64_t count;
  std::atomic<std::int64_t> next{0};
  std::mutex failure_mutex;
  std::exception_ptr failure;

  void work() {
    for (std::int64_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) {
      try {
        (*task)(i);
      } catch (...) {
        std::lock_guard lock(failure_mutex);
        if (!failure) failure = std::current_exception();
        next.store(count);
      }
    }
  }
};

class Pool {
 public:
  // Runs the job on the pool and the caller; false if the pool is busy.
  bool run(Job& job, int threads) {
    std::unique_lock busy(busy_, std::try_to_lock);
    if (!busy.owns_lock()) return false;
    {
      std::lock_guard lock(mutex_);
      while (started_ < threads - 1) {
        std::thread([this] { loop(); }).detach();  // lives as long as the process
        ++started_;
      }
      job_ = &job;
      free_places_ = threads - 1;
      ++generation_;
    }
    start_.notify_all();
    job.work();
    std::unique_lock lock(mutex_);
    free_places_ = 0;  // a thread that has not woken up yet is not waited for
    done_.wait(lock, [this] { return inside_ == 0; });
    job_ = nullptr;
    return true;
  }

 private:
  void loop() {
    std::uint64_t seen = 0;
    std::unique_lock lock(mutex_);
    for (;;) {
      start_.wait(lock, [&] { return free_places_ > 0 && generation_ != seen; });
      seen = generation_;
      --free_places_;
      ++inside_;
      Job* job = job_;
      lock.unlock();
      job->work();
      lock.lock();
      if (--inside_ == 0) done_.notify_one();
    }
  }

  std::mutex busy_;  // held by the caller whose job runs
  std::mutex mutex_;
  std::condition_variable start_, done_;
  Job* job_ = nullptr;
  int started_ = 0, free_places_ = 0, inside_ = 0;
  std::uint64_t generation_ = 0;
};

std::atomic<Pool*> pool{nullptr};

// The threads of a pool are not in the child of a fork: it makes a new one, and forgets the old.
Pool& current_pool() {
  static const bool registered = pthread_atfork(nullptr, nullptr, [] { pool.store(nullptr); }) == 0;
  static_cast<void>(registered);
  Pool* current = pool.load();
  if (current != nullptr) return *current;
  auto* const made = new Pool;
  if (pool.compare_exchange_strong(current, made)) return *made;
  delete made;
  return *current;
}

// Keeps the announced memory until the pass is over, also when it throws.
class Announced {
 public:
  explicit Announced(const PassAccesses& accesses) : runtime_(accesses.accesses.empty() ? nullptr : accesses.runtime) {
    if (runtime_ == nullptr) return;
    if (runtime_->recording()) runtime_->name_op(accesses.op, accesses.label);
    ticket_ = runtime_->announce(accesses.op, accesses.accesses);
  }
  Announced(const Announced&) = delete;
  Announced& operator=(const Announced&) = delete;
  ~Announced() {
    if (runtime_ != nullptr) runtime_->retire(ticket_);
  }

 private:
  std::shared_ptr<Runtime> runtime_;
  std::uint64_t ticket_ = 0;
};

}  // namespace

void run_tasks(std::int64_t count, const std::function<void(std::int64_t)>& task) {
  const int threads = static_cast<int>(std::min<std::int64_t>(wanted_threads(), count));
  if (threads <= 1) {
    for (std::int64_t i = 0; i < count; ++i) task(i);
    return;
  }
  Job job{&task, count, {}, {}, {}};
  if (!current_pool().run(job, threads)) job.work();
  if (job.failure) std::rethrow_exception(job.failure);
}

void run_announced(const PassAccesses& accesses, const std::function<void()>& body) {
  const Announced announced(accesses);
  body();
}

}  // namespace array

void set_array_threads(int threads) {
  if (threads < 0) throw Error(Status::kInvalid, "set_array_threads: give 0 for all, or a positive number");
  array::requested_threads.store(threads);
}

}  // namespace ebb
