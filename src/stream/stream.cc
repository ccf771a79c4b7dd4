// The façade of streams: see ebb/stream.h.
#include "ebb/stream.h"

#include <utility>

#include "stream/device.h"

namespace ebb {

struct Stream::State {
  State(std::shared_ptr<Device> device_, std::size_t queue_max)
      : device(std::move(device_)), number(device->open_stream(queue_max)) {}
  ~State() { device->close_stream(number); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  const std::shared_ptr<Device> device;
  const std::uint64_t number;
};

Stream::Stream(std::shared_ptr<Runtime> runtime, const StreamOptions& options) {
  if (runtime == nullptr) throw Error(Status::kInvalid, "a stream needs a runtime; Runtime::open() returns one");
  if (options.queue_max == 0 || options.queue_max > Device::kQueueMax) {
    throw Error(Status::kInvalid, "StreamOptions::queue_max is " + std::to_string(options.queue_max) +
                                      "; choose 1 to " + std::to_string(Device::kQueueMax));
  }
  if (options.workers > Device::kWorkersMax) {
    throw Error(Status::kInvalid, "StreamOptions::workers is " + std::to_string(options.workers) + "; choose at most " +
                                      std::to_string(Device::kWorkersMax));
  }
  state_ = std::make_unique<State>(Device::of(runtime, options.workers), options.queue_max);
}

Stream::Stream(Stream&&) noexcept = default;
Stream& Stream::operator=(Stream&&) noexcept = default;
Stream::~Stream() = default;

void Stream::launch(std::string name, std::span<const Use> uses, Kernel kernel) {
  state_->device->launch(state_->number, std::move(name), uses, std::move(kernel));
}

Event Stream::record() {
  state_->device->check_caller("record()");
  const Graph::Number last = state_->device->last_of(state_->number);
  if (last == 0) return {};
  return Event(std::make_shared<LaunchNode>(LaunchNode{state_->device, last}));
}

void Stream::wait(const Event& event) {
  state_->device->check_caller("wait()");
  if (event.node_ == nullptr) return;
  if (event.node_->device != state_->device) return event.synchronize();  // of another runtime
  state_->device->come_after(state_->number, event.node_->number);
}

void Stream::synchronize() { state_->device->synchronize(state_->number); }

const std::shared_ptr<Runtime>& Stream::runtime() const { return state_->device->runtime(); }

bool Event::over() const { return node_ == nullptr || node_->device->over(node_->number); }

void Event::synchronize() const {
  if (node_ == nullptr) return;
  node_->device->check_caller("Event::synchronize()");
  node_->device->wait_over(node_->number);
}

Stream Runtime::stream() { return Stream(shared_from_this()); }

}  // namespace ebb
