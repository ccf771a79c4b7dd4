// QueuedPass: a pass that is in a stream, in launches one after the other. Shared by its node, its kernels, those of
// the passes that read its result, and whoever waits.
//
// Kernels count down when they are done: what a launch that failed, or was not run because another one had, has not
// done. It has the inputs of the node: dropped when the last is done, given back if one failed. Any thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "array/graph/node.h"
#include "ebb/stream.h"

namespace ebb::array {

class QueuedPass {
 public:
  QueuedPass(std::shared_ptr<Runtime> runtime, std::int64_t launches) : runtime_(std::move(runtime)), left_(launches) {}

  const Runtime* runtime() const { return runtime_.get(); }
  void count_done() {
    if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) take_inputs();
  }
  bool succeeded() const { return left_.load(std::memory_order_acquire) == 0; }

  void keep_inputs(std::vector<NodePtr> inputs) { inputs_ = std::move(inputs); }  // before it is shared
  std::vector<NodePtr> take_inputs() {
    std::lock_guard lock(mutex_);
    return std::exchange(inputs_, {});
  }
  // All launches are in the stream that will ever be; `last` is over when they are.
  void set_launched(Event last) {
    {
      std::lock_guard lock(mutex_);
      last_ = std::move(last);
      launched_ = true;
    }
    changed_.notify_all();
  }
  Event last() {
    std::lock_guard lock(mutex_);
    return last_;
  }
  bool over() {
    std::lock_guard lock(mutex_);
    return launched_ && last_.over();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return launched_; });
    const Event last = last_;
    lock.unlock();
    last.synchronize();
  }

 private:
  const std::shared_ptr<Runtime> runtime_;
  std::atomic<std::int64_t> left_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<NodePtr> inputs_;
  bool launched_ = false;
  Event last_;
};

}  // namespace ebb::array
