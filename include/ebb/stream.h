// Stream: a queue of launches, run asynchronously by worker threads, the software device of a Runtime.
//
//   ebb::Stream stream = runtime->stream();
//   stream.launch("scale", {ebb::reads(x, n), ebb::overwrites(y, n)}, [=] {
//     ebb::parallel_for(n, 65536, [=](std::size_t begin, std::size_t end) {
//       for (std::size_t i = begin; i < end; ++i) y[i] = 2 * x[i];
//     });
//   });
//   stream.synchronize();
//
// Launches of one stream run in order. Launches of different streams of one Runtime run at the same time unless one
// writes bytes that the other uses: then in the order in which they were launched. What is queued is the launch window:
// its blocks are fetched before their turn comes, without any profile (PUMP: Lin et al., ASP-DAC 2022, section III).
// With the policy on_demand the same stream has no window.
//
// A kernel must use only bytes that its launch declares. Content that is declared wrongly is fetched all the same; only
// the order between streams, and what overwrites() promises, rest on the declaration.
//
// Threads: every function may be called from any thread but those that run kernels. The child of a fork has no streams.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "ebb/runtime.h"
#include "ebb/status.h"
#include "ebb/use.h"

namespace ebb {

// What synchronize() throws: a kernel threw, or was not run because it reads what a failed launch should have written.
class LaunchError : public Error {
 public:
  LaunchError(Status status, const std::string& message, std::string launch, std::exception_ptr cause)
      : Error(status, message), launch_(std::move(launch)), cause_(std::move(cause)) {}
  const std::string& launch() const { return launch_; }
  // What the kernel threw.
  const std::exception_ptr& cause() const { return cause_; }

 private:
  std::string launch_;
  std::exception_ptr cause_;
};

struct StreamOptions {
  // Launches queued or running; launch() waits while there are so many. The length of the launch window.
  std::size_t queue_max = 64;
  // Threads of the device, which the streams of a Runtime share; the first stream decides. 0: as many as cores.
  std::size_t workers = 0;
};

struct LaunchNode;

// A point in a stream: over when everything launched there before record() is over.
class Event {
 public:
  Event() = default;  // over
  bool over() const;
  // Waits until it is over; a failure is for Stream::synchronize() to tell.
  void synchronize() const;

 private:
  friend class Stream;
  explicit Event(std::shared_ptr<LaunchNode> node) : node_(std::move(node)) {}
  std::shared_ptr<LaunchNode> node_;
};

class Stream {
 public:
  using Kernel = std::function<void()>;

  // Throws Error(kInvalid): options out of range; no thread can be started.
  explicit Stream(std::shared_ptr<Runtime> runtime, const StreamOptions& options = {});
  Stream(Stream&&) noexcept;
  Stream& operator=(Stream&&) noexcept;
  // Waits for what is queued; a failure that synchronize() has not told yet is printed.
  ~Stream();

  // Queues a kernel. Waits while the queue is full. The kernel, with all that it holds, is destroyed when it is over:
  // what it uses may be owned by it. Throws Error(kInvalid): a range that wraps around, a call from inside a kernel.
  void launch(std::string name, std::span<const Use> uses, Kernel kernel);
  void launch(std::string name, std::initializer_list<Use> uses, Kernel kernel) {
    launch(std::move(name), std::span<const Use>(uses.begin(), uses.size()), std::move(kernel));
  }
  Event record();
  // What is launched here from now on waits for the event.
  void wait(const Event& event);
  // Waits until everything launched here is over. Throws the LaunchError of the first launch that failed since the last
  // time, and forgets about them: what they should have written counts as written.
  void synchronize();

  const std::shared_ptr<Runtime>& runtime() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Calls body(begin, end) for parts of [0, count) of at most `grain` each, on the threads of the device that runs the
// calling kernel; on the calling thread alone outside of a kernel. Returns when all are done; throws what the first
// body that failed threw, and begins no further parts then. May be nested.
void parallel_for(std::size_t count, std::size_t grain, const std::function<void(std::size_t, std::size_t)>& body);

}  // namespace ebb
