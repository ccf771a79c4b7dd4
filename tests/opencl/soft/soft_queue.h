// SoftQueue: commands run one after the other by a thread of their own; SoftEvent: how far one has come.
//
// A command is a function that owns what it works on. Callbacks come from the queue's thread, or at once where the
// command has ended. Any thread may enqueue; whoever lets go of the last reference must not be the queue's thread.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace ebb::opencl_test {

class SoftEvent {
 public:
  using Callback = std::function<void()>;

  bool ended() const;
  void end();
  void when_ended(Callback callback);

 private:
  mutable std::mutex mutex_;
  bool ended_ = false;
  std::vector<Callback> callbacks_;
};

class SoftQueue {
 public:
  SoftQueue();
  ~SoftQueue();  // waits for what is enqueued
  std::shared_ptr<SoftEvent> enqueue(std::function<void()> command);

 private:
  struct Command {
    std::function<void()> run;
    std::shared_ptr<SoftEvent> event;
  };
  void serve();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Command> commands_;
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace ebb::opencl_test
