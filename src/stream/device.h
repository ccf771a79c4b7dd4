// Device: the software device of a Runtime: worker threads that run the launches of its streams, as a GPU would.
//
// Life of a launch: launch() waits for a place in the queue of its stream, tells the Runtime to expect it, and adds it
// to the graph; a worker takes it when its turn has come, announces it, which waits for its blocks, runs the kernel and
// retires it. Workers without a launch help kernels that call parallel_for().
//
// Threads: any that is not a worker calls the public functions; parallel_for() is called by kernels. One mutex guards
// everything here; neither kernels nor the Runtime run under it. Owned by its streams and events; it ends its threads
// when the last of them goes.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "ebb/stream.h"
#include "stream/foreign.h"
#include "stream/graph.h"

namespace ebb {

// Why a launch is not what it should be: its kernel threw, or it was not run.
struct Failure {
  Status status = Status::kInvalid;
  std::string launch;
  std::string message;  // names the launch
  std::string reason;   // what the kernel said that failed first
  std::exception_ptr cause;
};

class Device {
 public:
  static constexpr std::size_t kWorkersMax = 256;
  static constexpr std::size_t kQueueMax = 4096;

  // That of a Runtime; made for its first stream.
  static std::shared_ptr<Device> of(const std::shared_ptr<Runtime>& runtime, std::size_t workers);
  Device(std::shared_ptr<Runtime> runtime, std::size_t workers);
  ~Device();

  std::uint64_t open_stream(std::size_t queue_max);
  // Waits for its launches; prints a failure that was not told.
  void close_stream(std::uint64_t stream) noexcept;
  void launch(std::uint64_t stream, std::string name, std::span<const Use> uses, Stream::Kernel kernel);
  // The launch added last to a stream; 0: none that is not over.
  Graph::Number last_of(std::uint64_t stream);
  void come_after(std::uint64_t stream, Graph::Number launch);
  bool over(Graph::Number launch);
  void wait_over(Graph::Number launch);
  void synchronize(std::uint64_t stream);

  void parallel_for(std::size_t count, std::size_t grain, const std::function<void(std::size_t, std::size_t)>& body);
  // The device whose worker the calling thread is, or null.
  static Device* current();

  const std::shared_ptr<Runtime>& runtime() const { return runtime_; }
  // Throws where waiting would be for ever: in a kernel, and in a forked child.
  void check_caller(const char* what) const;

 private:
  using Lock = std::unique_lock<std::mutex>;
  struct Launch {
    std::string name;
    std::uint64_t stream = 0;
    std::vector<Access> accesses;
    Stream::Kernel kernel;
    std::uint64_t expected = 0;  // by the Runtime
  };
  struct Queue {  // of a stream
    std::size_t max = 0;
    std::size_t pending = 0;
    std::vector<Graph::Number> after;  // what the next launch waits for
    Graph::FailurePtr failure;         // the first since synchronize()
  };
  struct Job;

  bool in_child() const;
  void end();
  void work();
  void run(Lock& lock, Graph::Number number);
  void help(Lock& lock, Job& job);
  Job* job_to_help();
  Graph::FailurePtr execute(Launch& launch);

  const std::shared_ptr<Runtime> runtime_;
  const pid_t process_;
  const ForeignMemory foreign_;
  std::mutex mutex_;
  std::condition_variable work_came_;
  std::condition_variable over_;  // a launch, or the help with a job
  Graph graph_;
  std::map<Graph::Number, std::unique_ptr<Launch>> launches_;  // queued
  std::map<std::uint64_t, Queue> queues_;                      // by stream
  std::vector<Job*> jobs_;
  std::uint64_t next_stream_ = 1;
  bool stopping_ = false;
  std::vector<std::thread> workers_;
};

struct LaunchNode {
  std::shared_ptr<Device> device;
  Graph::Number number = 0;
};

}  // namespace ebb
