// Queue: context and command queue of one device, what is sent to it, and the wait for it, which ends.
//
// Shared by the device and the kernels that it compiled. Any thread: OpenCL's calls may come from several. Commands run
// in the order in which they were enqueued.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <list>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "drivers/opencl/opencl_api.h"
#include "drivers/opencl/opencl_discovery.h"
#include "drivers/opencl/opencl_handle.h"

namespace ebb::opencl {

class Queue {
 public:
  Queue(const Api& api, Found found, std::chrono::milliseconds timeout);

  const Api& api() const { return api_; }
  const Found& found() const { return found_; }
  cl_context context() const { return context_.get(); }
  cl_command_queue get() const { return queue_.get(); }

  // Throws Error unless commands may be sent: not in a forked child, nor when one did not end.
  void check_usable() const;
  bool usable() const;
  // A command did not end in time; nothing is sent from now on.
  void give_up() { stuck_.store(true); }
  bool stuck() const { return stuck_.load(); }
  std::chrono::milliseconds timeout() const { return timeout_; }

  Handle<cl_mem> buffer(cl_mem_flags flags, std::size_t bytes, void* host) const;
  // A buffer of the device's own, as large as one that was given back, which it may be: fresh memory costs more than
  // the copy into it. What is in it is undefined.
  Handle<cl_mem> staging(std::size_t bytes);
  void give_back(Handle<cl_mem> buffer, std::size_t bytes);

 private:
  static constexpr std::size_t kKeptMax = 8;
  static constexpr std::uint64_t kKeptShare = 8;  // of the device's memory

  const Api api_;
  const Found found_;
  const std::chrono::milliseconds timeout_;
  const pid_t process_;
  std::atomic<bool> stuck_{false};
  Handle<cl_context> context_;
  Handle<cl_command_queue> queue_;
  std::mutex kept_mutex_;
  std::list<std::pair<std::size_t, Handle<cl_mem>>> kept_;  // by bytes, given back last first
};

// Commands whose end is waited for together. Memory that they use must outlive it: it waits when it goes, too.
class Batch {
 public:
  explicit Batch(Queue& queue) : queue_(queue) {}
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;
  ~Batch();

  // Where a command's event goes. `call` names the command for messages.
  cl_event* next(const char* call);
  // Until all have ended. Throws Error for the first that failed, or when the time is over.
  void wait();

 private:
  struct Command {
    const char* call;
    cl_event event = nullptr;
  };
  cl_int wait_for_last();
  void drop() noexcept;

  Queue& queue_;
  std::vector<std::unique_ptr<Command>> commands_;
};

}  // namespace ebb::opencl
