// See soft_queue.h.
#include "soft_queue.h"

#include <utility>

namespace ebb::opencl_test {

bool SoftEvent::ended() const {
  const std::lock_guard lock(mutex_);
  return ended_;
}

void SoftEvent::end() {
  std::vector<Callback> callbacks;
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    callbacks.swap(callbacks_);
  }
  for (const Callback& callback : callbacks) callback();
}

void SoftEvent::when_ended(Callback callback) {
  {
    const std::lock_guard lock(mutex_);
    if (!ended_) {
      callbacks_.push_back(std::move(callback));
      return;
    }
  }
  callback();
}

SoftQueue::SoftQueue() : thread_([this] { serve(); }) {}

SoftQueue::~SoftQueue() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::shared_ptr<SoftEvent> SoftQueue::enqueue(std::function<void()> command) {
  auto event = std::make_shared<SoftEvent>();
  {
    const std::lock_guard lock(mutex_);
    commands_.push_back({std::move(command), event});
  }
  changed_.notify_all();
  return event;
}

void SoftQueue::serve() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return closing_ || !commands_.empty(); });
    if (commands_.empty()) return;
    Command command = std::move(commands_.front());
    commands_.pop_front();
    lock.unlock();
    command.run();
    command.run = nullptr;  // what it works on is let go of before its end is told
    command.event->end();
    lock.lock();
  }
}

}  // namespace ebb::opencl_test
