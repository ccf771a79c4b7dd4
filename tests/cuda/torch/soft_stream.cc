// The device guard, on streams and events of the software driver.
#include "soft_stream.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>

#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <thread>

#include "drivers/cuda/cuda_api.h"
#include "soft_memory.h"

// Entry points of the software driver.
extern "C" {
ebb::cuda::Result cuInit(unsigned flags);
ebb::cuda::Result cuDevicePrimaryCtxRetain(ebb::cuda::Context* context, ebb::cuda::Device device);
ebb::cuda::Result cuCtxPushCurrent_v2(ebb::cuda::Context context);
ebb::cuda::Result cuCtxPopCurrent_v2(ebb::cuda::Context* context);
ebb::cuda::Result cuEventCreate(ebb::cuda::Event* event, unsigned flags);
ebb::cuda::Result cuEventDestroy_v2(ebb::cuda::Event event);
ebb::cuda::Result cuEventRecord(ebb::cuda::Event event, ebb::cuda::Stream stream);
ebb::cuda::Result cuEventQuery(ebb::cuda::Event event);
ebb::cuda::Result cuStreamWaitEvent(ebb::cuda::Stream stream, ebb::cuda::Event event, unsigned flags);
}

namespace ebb::soft_device {
namespace {

constexpr std::chrono::seconds kWorkMax{60};
constexpr std::size_t kPool = 4;

thread_local c10::StreamId t_current = 0;

struct Context {
  Context() {
    static const cuda::Context primary = [] {
      cuda::Context made = nullptr;
      TORCH_CHECK(cuInit(0) == 0 && cuDevicePrimaryCtxRetain(&made, 0) == 0, "the software driver does not start");
      return made;
    }();
    cuCtxPushCurrent_v2(primary);
  }
  ~Context() {
    cuda::Context popped = nullptr;
    cuCtxPopCurrent_v2(&popped);
  }
};

void check(int result, const char* what) {
  TORCH_CHECK(result == cuda::kSuccess, what, " failed on the soft device with error ", result);
}

// Streams besides the default one, made when first asked for; ids count from 1.
std::vector<void*>& pool() {
  static std::vector<void*> streams = [] {
    std::vector<void*> made(kPool);
    for (void*& stream : made) check(soft::new_stream(&stream), "making a stream");
    return made;
  }();
  return streams;
}

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return kType; }
  c10::Device exchangeDevice(c10::Device) const override { return kDevice; }
  c10::Device getDevice() const override { return kDevice; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  c10::Stream getStream(c10::Device) const override { return stream(t_current); }
  c10::Stream getDefaultStream(c10::Device) const override { return stream(0); }
  c10::Stream getStreamFromGlobalPool(c10::Device, bool) const override {
    static std::atomic<std::size_t> next{0};
    return stream(static_cast<c10::StreamId>(next++ % kPool + 1));
  }
  c10::Stream getNewStream(c10::Device device, int) const override { return getStreamFromGlobalPool(device, false); }
  c10::Stream exchangeStream(c10::Stream wanted) const override {
    return stream(std::exchange(t_current, wanted.id()));
  }
  void* getStreamNativeHandle(const c10::Stream wanted) const override { return handle_of(wanted); }
  bool queryStream(const c10::Stream&) const override { return false; }
  void synchronizeStream(const c10::Stream& wanted) const override {
    check(soft::wait_for(handle_of(wanted)), "waiting for a stream");
  }
  void synchronizeDevice(c10::DeviceIndex) const override { synchronize_device(); }

  void record(void** event, const c10::Stream& in, c10::DeviceIndex, c10::EventFlag) const override {
    const Context context;
    auto made = static_cast<cuda::Event>(*event);
    if (made == nullptr) check(cuEventCreate(&made, 0), "making an event");
    *event = made;
    check(cuEventRecord(made, static_cast<cuda::Stream>(handle_of(in))), "recording an event");
  }
  void block(void* event, const c10::Stream& in) const override {
    const Context context;
    if (event == nullptr) return;
    check(cuStreamWaitEvent(static_cast<cuda::Stream>(handle_of(in)), static_cast<cuda::Event>(event), 0), "waiting");
  }
  bool queryEvent(void* event) const override {
    const Context context;
    return event == nullptr || cuEventQuery(static_cast<cuda::Event>(event)) == cuda::kSuccess;
  }
  void synchronizeEvent(void* event) const override {
    const auto end = std::chrono::steady_clock::now() + kWorkMax;
    while (!queryEvent(event)) {
      TORCH_CHECK(std::chrono::steady_clock::now() < end, "an event of the soft device does not come");
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override {
    const Context context;
    if (event != nullptr) cuEventDestroy_v2(static_cast<cuda::Event>(event));
  }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& in) const override {
    record_stream(data, handle_of(in));
  }

 private:
  static c10::Stream stream(c10::StreamId id) { return c10::Stream(c10::Stream::UNSAFE, kDevice, id); }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

}  // namespace

void* handle_of(c10::Stream stream) {
  return stream.id() == 0 ? nullptr : pool().at(static_cast<std::size_t>(stream.id() - 1));
}

void* current_handle() { return handle_of(c10::Stream(c10::Stream::UNSAFE, kDevice, t_current)); }

void synchronize_device() {
  check(soft::wait_for(nullptr), "waiting for the default stream");
  for (void* const stream : pool()) check(soft::wait_for(stream), "waiting for a stream");
}

void run_in_stream(const std::string& name, const std::vector<soft::Touch>& touches,
                   const std::function<void()>& work) {
  // The stream's thread stands still at this place while the work is done here, where PyTorch's own state is.
  auto started = std::make_shared<std::promise<void>>();
  auto finished = std::make_shared<std::promise<void>>();
  std::future<void> start = started->get_future();
  const int result = soft::launch(current_handle(), touches, [started, end = finished->get_future().share()] {
    started->set_value();
    end.wait();
  });
  started.reset();  // the driver has the last one: it breaks the promise when it leaves the work out
  struct Finish {
    std::promise<void>& promise;
    ~Finish() { promise.set_value(); }
  } const finish{*finished};
  check(result, name.c_str());
  TORCH_CHECK(start.wait_for(kWorkMax) == std::future_status::ready, name, " does not start on the soft device");
  try {
    start.get();
  } catch (const std::future_error&) {
    TORCH_CHECK(false, name, " touches memory of the device that is not mapped");
  }
  work();
}

}  // namespace ebb::soft_device
