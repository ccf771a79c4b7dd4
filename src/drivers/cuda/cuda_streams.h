// CudaStreams: what every device behind CUDA has: its GPU, events, and the sentence that is kept when it is lost.
// `Port` is what the device implements beside DeviceStreams.
//
// Every call makes the primary context current for its duration, and puts back what was current before. One thread at a
// time. Invariant: of a lost GPU nothing is asked any more: work that still runs would be disturbed.
#pragma once

#include <string>

#include "drivers/cuda/cuda_current.h"
#include "drivers/cuda/cuda_gpu.h"
#include "port/device_streams.h"

namespace ebb {

template <typename Port>
class CudaStreams : public Port {
 public:
  using Stream = DeviceStreams::Stream;
  using Event = DeviceStreams::Event;

  Status make_event(Event& event) override {
    if (lost()) return Status::kIoError;
    const cuda::Current current(gpu_.api, gpu_.context);
    cuda::Event made = nullptr;
    const Status status = status_of(gpu_.api.event_create(&made, cuda::kEventWithoutTiming), "cuEventCreate");
    event = made;
    return status;
  }

  void destroy_event(Event event) override {
    if (lost()) return;
    const cuda::Current current(gpu_.api, gpu_.context);
    static_cast<void>(status_of(gpu_.api.event_destroy(static_cast<cuda::Event>(event)), "cuEventDestroy"));
  }

  Status record(Event event, Stream stream) override {
    if (lost()) return Status::kIoError;
    const cuda::Current current(gpu_.api, gpu_.context);
    // Without the event nobody could tell when what the stream was given is over.
    const cuda::Result result =
        gpu_.api.event_record(static_cast<cuda::Event>(event), static_cast<cuda::Stream>(stream));
    if (result != cuda::kSuccess) lose("cuEventRecord", result);
    return result == cuda::kSuccess ? Status::kOk : Status::kIoError;
  }

  Status wait(Stream stream, Event event) override {
    if (lost()) return Status::kIoError;
    const cuda::Current current(gpu_.api, gpu_.context);
    return status_of(gpu_.api.stream_wait(static_cast<cuda::Stream>(stream), static_cast<cuda::Event>(event), 0),
                     "cuStreamWaitEvent");
  }

  Status query(Event event) override {
    if (lost()) return Status::kIoError;
    const cuda::Current current(gpu_.api, gpu_.context);
    const cuda::Result result = gpu_.api.event_query(static_cast<cuda::Event>(event));
    if (result == cuda::kNotReady) return Status::kBusy;
    // Whatever else it is, the work before the event can no longer be told to be over.
    if (result != cuda::kSuccess) lose("the work before an event", result);
    return result == cuda::kSuccess ? Status::kOk : Status::kIoError;
  }

  const std::string& failure() const override { return failure_; }

 protected:
  Status status_of(cuda::Result error, const char* what) {
    if (error == cuda::kSuccess) return Status::kOk;
    if (error == cuda::kOutOfMemory) return Status::kNoMemory;
    if (cuda::is_fatal(error)) lose(what, error);
    return Status::kIoError;
  }
  bool lost() const { return !failure_.empty(); }

  cuda::Gpu gpu_;

 private:
  void lose(const char* what, cuda::Result error) {
    if (lost()) return;
    failure_ =
        "the GPU '" + gpu_.name + "' is lost to this process: " + std::string(what) + " failed with " +
        gpu_.api.text(error) +
        ". A kernel that touches more than was announced does this (EBB_DEVICE_STRICT=1 finds it), and so does " +
        "failing hardware. Start the program again.";
  }

  std::string failure_;
};

}  // namespace ebb
