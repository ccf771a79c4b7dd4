// See device.h: streams, launches, workers. What a launch declares: uses.cc; parts of kernels: parallel.cc.
#include "stream/device.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <new>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "stream/parallel.h"
#include "stream/uses.h"

namespace ebb {
namespace {

// Of the budget, what launches that run at the same time may use together.
constexpr std::uint64_t kEighthsMax = 5;

thread_local Device* t_device = nullptr;

struct Registry {
  std::mutex mutex;
  std::map<const Runtime*, std::weak_ptr<Device>> devices;
};

// Never destroyed: the last stream may go after static destruction has begun.
Registry& registry() {
  static Registry* const instance = new Registry;
  return *instance;
}

// FNV-1a: the same launch has the same number in every iteration and every run.
std::uint64_t op_of(const std::string& name) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return hash;
}

Graph::FailurePtr failed(const std::string& launch, Status status, const std::string& reason,
                         std::exception_ptr cause) {
  Failure failure{status, launch, "launch '" + launch + "' failed: " + reason, reason, std::move(cause)};
  return std::make_shared<const Failure>(std::move(failure));
}

Graph::FailurePtr inherited(const std::string& launch, const Failure& from) {
  Failure failure{from.status, launch, "", from.reason, from.cause};
  failure.message = "launch '" + launch + "' was not run: it reads what launch '" + from.launch +
                    "' should have written, which failed: " + from.reason;
  return std::make_shared<const Failure>(std::move(failure));
}

}  // namespace

Device* Device::current() { return t_device; }

std::shared_ptr<Device> Device::of(const std::shared_ptr<Runtime>& runtime, std::size_t workers) {
  Registry& known = registry();
  const std::lock_guard lock(known.mutex);
  std::weak_ptr<Device>& device = known.devices[runtime.get()];
  if (std::shared_ptr<Device> there = device.lock(); there != nullptr && !there->in_child()) return there;
  auto made = std::make_shared<Device>(runtime, workers);
  device = made;
  return made;
}

Device::Device(std::shared_ptr<Runtime> runtime, std::size_t workers)
    : runtime_(std::move(runtime)), process_(::getpid()), graph_(runtime_->stats().budget_bytes / 8 * kEighthsMax) {
  if (workers == 0) workers = std::max(1u, std::thread::hardware_concurrency());
  workers_.reserve(workers);
  try {
    while (workers_.size() < workers) workers_.emplace_back([this] { work(); });
  } catch (const std::system_error&) {
    if (workers_.empty()) throw Error(Status::kUnsupported, "a stream cannot start a thread; lift ulimit -u");
  }
}

Device::~Device() {
  {
    Registry& known = registry();
    const std::lock_guard lock(known.mutex);
    const auto found = known.devices.find(runtime_.get());
    if (found != known.devices.end() && found->second.expired()) known.devices.erase(found);
  }
  if (in_child()) {
    // The threads are the parent's; their handles are forgotten, and so is who waits.
    static_cast<void>(new std::vector<std::thread>(std::move(workers_)));
    new (&work_came_) std::condition_variable();
    new (&over_) std::condition_variable();
    return;
  }
  {
    const Lock lock(mutex_);
    stopping_ = true;
  }
  work_came_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

bool Device::in_child() const { return ::getpid() != process_; }

void Device::check_caller(const char* what) const {
  if (in_child()) {
    throw Error(Status::kInvalid, std::string(what) +
                                      " in a forked process, where the streams of its parent do not run: fork before "
                                      "the first stream, or use subprocesses");
  }
  if (t_device != nullptr) {
    throw Error(Status::kInvalid, std::string(what) +
                                      " inside a kernel, which would wait for itself: call it from the thread that "
                                      "launches, or use parallel_for()");
  }
}

std::uint64_t Device::open_stream(std::size_t queue_max) {
  const Lock lock(mutex_);
  const std::uint64_t stream = next_stream_++;
  queues_[stream].max = queue_max;
  return stream;
}

void Device::close_stream(std::uint64_t stream) noexcept {
  if (in_child()) return;
  EBB_CHECK(t_device != this);  // a kernel that owns its stream would wait for itself
  Lock lock(mutex_);
  Queue& queue = queues_.at(stream);
  over_.wait(lock, [&] { return queue.pending == 0; });
  if (queue.failure != nullptr) {
    std::fprintf(stderr, "ebb: a stream ends, and nobody asked how it went: %s\n", queue.failure->message.c_str());
  }
  graph_.forgive(stream);
  queues_.erase(stream);
}

void Device::launch(std::uint64_t stream, std::string name, std::span<const Use> uses, Stream::Kernel kernel) {
  check_caller("launch()");
  std::vector<UsedBytes> used = used_bytes(name, uses);
  auto launch = std::make_unique<Launch>();
  launch->accesses = accesses_of(uses, used);
  launch->name = std::move(name);
  launch->stream = stream;
  launch->kernel = std::move(kernel);
  if (runtime_->recording()) runtime_->name_op(op_of(launch->name), launch->name);
  {
    Lock lock(mutex_);
    Queue& queue = queues_.at(stream);
    over_.wait(lock, [&] { return queue.pending < queue.max; });
    ++queue.pending;
  }
  launch->expected = runtime_->expect(launch->accesses);
  try {
    const Lock lock(mutex_);
    Queue& queue = queues_.at(stream);
    auto place = launches_.emplace(Graph::Number{0}, std::move(launch)).first;  // memory for it first
    const Graph::Number number = graph_.add(stream, std::move(used), queue.after);
    queue.after.clear();
    auto node = launches_.extract(place);
    node.key() = number;
    launches_.insert(std::move(node));
  } catch (...) {
    const Lock lock(mutex_);
    --queues_.at(stream).pending;
    throw;
  }
  work_came_.notify_one();
}

Graph::Number Device::last_of(std::uint64_t stream) {
  const Lock lock(mutex_);
  return graph_.last_of(stream);
}

void Device::come_after(std::uint64_t stream, Graph::Number launch) {
  const Lock lock(mutex_);
  if (!graph_.over(launch)) queues_.at(stream).after.push_back(launch);
}

bool Device::over(Graph::Number launch) {
  const Lock lock(mutex_);
  return graph_.over(launch);
}

void Device::wait_over(Graph::Number launch) {
  Lock lock(mutex_);
  over_.wait(lock, [&] { return graph_.over(launch); });
}

void Device::synchronize(std::uint64_t stream) {
  check_caller("synchronize()");
  Lock lock(mutex_);
  Queue& queue = queues_.at(stream);
  over_.wait(lock, [&] { return queue.pending == 0; });
  const Graph::FailurePtr failure = std::exchange(queue.failure, nullptr);
  graph_.forgive(stream);
  lock.unlock();
  if (failure != nullptr) throw LaunchError(failure->status, failure->message, failure->launch, failure->cause);
}

void Device::work() {
  runtime_->prepare_thread();
  t_device = this;
  Lock lock(mutex_);
  for (;;) {
    if (Job* const job = job_to_help(); job != nullptr) {
      help(lock, *job);
    } else if (const Graph::Number number = graph_.take(); number != 0) {
      run(lock, number);
    } else if (stopping_) {
      return;
    } else {
      work_came_.wait(lock);
    }
  }
}

void Device::run(Lock& lock, Graph::Number number) {
  auto found = launches_.find(number);
  const std::unique_ptr<Launch> launch = std::move(found->second);
  launches_.erase(found);
  const Graph::FailurePtr poison = graph_.poison_of(number);
  lock.unlock();
  const Graph::FailurePtr failure = poison != nullptr ? inherited(launch->name, *poison) : execute(*launch);
  runtime_->forget(launch->expected);
  launch->kernel = nullptr;  // what it owns goes before anybody hears that it is over
  lock.lock();
  graph_.finish(number, failure);
  Queue& queue = queues_.at(launch->stream);
  --queue.pending;
  if (queue.failure == nullptr) queue.failure = failure;
  // This thread takes one of those that may run now; what it used may be what others wait for.
  if (graph_.has_ready()) work_came_.notify_all();
  over_.notify_all();
}

Graph::FailurePtr Device::execute(Launch& launch) {
  const std::uint64_t ticket = runtime_->announce(op_of(launch.name), launch.accesses);
  runtime_->begin(launch.expected);
  Graph::FailurePtr failure;
  const std::string complaint = foreign_.complaint(*runtime_, launch.accesses);
  if (!complaint.empty()) {
    failure = failed(launch.name, Status::kInvalid, complaint, nullptr);
  } else if (runtime_->lost(launch.accesses)) {
    failure = failed(launch.name, Status::kCorrupt,
                     "flash cannot give back data that it uses: check the disk, or restore the data", nullptr);
  } else {
    try {
      if (launch.kernel) launch.kernel();
    } catch (const Error& error) {
      failure = failed(launch.name, error.status(), error.what(), std::current_exception());
    } catch (const std::bad_alloc& error) {
      failure = failed(launch.name, Status::kNoMemory, error.what(), std::current_exception());
    } catch (const std::exception& error) {
      failure = failed(launch.name, Status::kInvalid, error.what(), std::current_exception());
    } catch (...) {
      failure = failed(launch.name, Status::kInvalid, "an exception of an unknown type", std::current_exception());
    }
  }
  runtime_->retire(ticket);
  return failure;
}

}  // namespace ebb
