// See opencl_queue.h. clWaitForEvents() would wait for ever, so the end of a command is heard of from a callback.
#include "drivers/opencl/opencl_queue.h"

#include <unistd.h>

#include <algorithm>
#include <condition_variable>

namespace ebb::opencl {
namespace {

// Owned by the waiting thread and by the callback, which may come when that has given up.
struct Signal {
  std::mutex mutex;
  std::condition_variable ended;
  bool done = false;
};

void CL_CALLBACK tell(cl_event, cl_int, void* data) {
  const std::unique_ptr<std::shared_ptr<Signal>> signal(static_cast<std::shared_ptr<Signal>*>(data));
  const std::lock_guard lock((*signal)->mutex);
  (*signal)->done = true;
  (*signal)->ended.notify_all();
}

}  // namespace

Queue::Queue(const Api& api, Found found, std::chrono::milliseconds timeout)
    : api_(api), found_(std::move(found)), timeout_(timeout), process_(::getpid()) {
  const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM,
                                              reinterpret_cast<cl_context_properties>(found_.platform), 0};
  cl_int error = CL_SUCCESS;
  context_ = {api_.clCreateContext(properties, 1, &found_.device, nullptr, nullptr, &error), api_.clReleaseContext};
  require(error, "clCreateContext");
  queue_ = {api_.clCreateCommandQueue(context_.get(), found_.device, 0, &error), api_.clReleaseCommandQueue};
  require(error, "clCreateCommandQueue");
}

bool Queue::usable() const { return !stuck() && ::getpid() == process_; }

void Queue::check_usable() const {
  if (::getpid() != process_) {
    throw Error(Status::kUnsupported,
                "OpenCL: this is a forked child, which cannot use the device of its parent; "
                "open the device after fork(), or start workers with exec");
  }
  if (stuck()) {
    throw Error(Status::kIoError,
                "OpenCL: '" + found_.info.name + "' did not end a launch in time and is given up; restart the program");
  }
}

Handle<cl_mem> Queue::buffer(cl_mem_flags flags, std::size_t bytes, void* host) const {
  cl_int error = CL_SUCCESS;
  Handle<cl_mem> made(api_.clCreateBuffer(context_.get(), flags, bytes, host, &error), api_.clReleaseMemObject);
  if (error != CL_SUCCESS) fail(error, "clCreateBuffer", " for " + format_size(bytes));
  return made;
}

Handle<cl_mem> Queue::staging(std::size_t bytes) {
  {
    const std::lock_guard lock(kept_mutex_);
    const auto found = std::find_if(kept_.begin(), kept_.end(), [&](const auto& kept) { return kept.first == bytes; });
    if (found != kept_.end()) {
      Handle<cl_mem> buffer = std::move(found->second);
      kept_.erase(found);
      return buffer;
    }
  }
  try {
    return buffer(CL_MEM_READ_WRITE, bytes, nullptr);
  } catch (const Error& error) {
    if (error.status() != Status::kNoMemory) throw;
    const std::lock_guard lock(kept_mutex_);
    if (kept_.empty()) throw;
    kept_.clear();
  }
  return buffer(CL_MEM_READ_WRITE, bytes, nullptr);
}

void Queue::give_back(Handle<cl_mem> buffer, std::size_t bytes) {
  const std::lock_guard lock(kept_mutex_);
  kept_.emplace_front(bytes, std::move(buffer));
  std::uint64_t all = 0;
  std::size_t keep = 0;
  for (const auto& kept : kept_) {
    all += kept.first;
    if (keep == kKeptMax || all > found_.info.memory_bytes / kKeptShare) break;
    ++keep;
  }
  while (kept_.size() > keep) kept_.pop_back();
}

cl_event* Batch::next(const char* call) {
  commands_.push_back(std::make_unique<Command>(Command{call}));
  return &commands_.back()->event;
}

// What the last command came to; CL_QUEUED if it did not end in time.
cl_int Batch::wait_for_last() {
  // A command that could not be enqueued has no event.
  while (!commands_.empty() && commands_.back()->event == nullptr) commands_.pop_back();
  if (commands_.empty()) return CL_SUCCESS;
  const Api& api = queue_.api();
  require(api.clFlush(queue_.get()), "clFlush");
  const auto signal = std::make_shared<Signal>();
  auto held = std::make_unique<std::shared_ptr<Signal>>(signal);
  require(api.clSetEventCallback(commands_.back()->event, CL_COMPLETE, tell, held.get()), "clSetEventCallback");
  static_cast<void>(held.release());
  std::unique_lock lock(signal->mutex);
  return signal->ended.wait_for(lock, queue_.timeout(), [&] { return signal->done; }) ? CL_SUCCESS : CL_QUEUED;
}

void Batch::wait() {
  if (wait_for_last() == CL_QUEUED) {
    queue_.give_up();
    throw Error(Status::kIoError, "OpenCL: " + std::string(commands_.back()->call) + " on '" +
                                      queue_.found().info.name + "' did not end within " +
                                      std::to_string(queue_.timeout().count()) +
                                      " ms: the device is given up, and the memory of the launch must not be freed; "
                                      "look for an endless loop in the kernel, or set a longer launch_timeout");
  }
  const Api& api = queue_.api();
  cl_int failed = CL_SUCCESS;
  const char* call = nullptr;
  for (const auto& command : commands_) {
    cl_int status = CL_COMPLETE;
    const cl_int error =
        api.clGetEventInfo(command->event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, nullptr);
    const cl_int outcome = error != CL_SUCCESS ? error : status;
    if (failed != CL_SUCCESS || outcome >= CL_COMPLETE) continue;
    failed = outcome;
    call = command->call;
  }
  drop();
  if (failed != CL_SUCCESS) fail(failed, call, " while it ran");
}

void Batch::drop() noexcept {
  for (const auto& command : commands_) {
    if (command->event != nullptr) queue_.api().clReleaseEvent(command->event);
  }
  commands_.clear();
}

Batch::~Batch() {
  if (!commands_.empty() && !queue_.stuck()) {
    try {
      if (wait_for_last() == CL_QUEUED) queue_.give_up();
    } catch (const Error&) {
      queue_.give_up();  // nobody knows whether the memory is still in use
    }
  }
  drop();
}

}  // namespace ebb::opencl
