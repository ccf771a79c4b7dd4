// GpuRuntime: its thread that changes mappings which no launch waits for yet: of what is fetched ahead, and of what has
// left. Starting kernels does not wait for the driver meanwhile.
#include "runtime/device/gpu_runtime.h"

namespace ebb {
namespace {

constexpr std::chrono::milliseconds kMapperIdleWait{50};
constexpr std::chrono::microseconds kMapperDeviceWait{300};  // while something may leave when the device has gone on

}  // namespace

void GpuRuntime::map_loop() {
  FrameMap::Changes changes;
  Lock lock(mutex_);
  while (!stopping_) {
    if (device_->failure().empty()) frames_.begin_changes(changes);
    if (changes.empty()) {
      if (frames_.leaving() && device_->failure().empty()) {
        to_map_.wait_for(lock, kMapperDeviceWait);
      } else {
        to_map_.wait_for(lock, kMapperIdleWait);
      }
      continue;
    }
    lock.unlock();
    frames_.make(changes);
    lock.lock();
    frames_.end_changes(changes);
    changes = {};
    mapped_.notify_all();
  }
}

}  // namespace ebb
