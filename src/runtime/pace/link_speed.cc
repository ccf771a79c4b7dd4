// See link_speed.h.
#include "runtime/pace/link_speed.h"

#include <algorithm>
#include <chrono>

#include "base/clock.h"
#include "ebb/units.h"

namespace ebb {
namespace {

constexpr std::size_t kBytes = 64 * kMiB;  // some milliseconds
constexpr std::size_t kCopiesMin = 2;
constexpr std::chrono::seconds kWaitMax{30};  // a device that takes longer hangs

// Copies the first block of host memory so often, after once that does not count, and waits for it: nothing uses the
// frame afterwards. False: something went wrong.
bool copy(GpuDevice& device, FrameIndex frame, std::size_t block_bytes, std::size_t copies, GpuDevice::Event from,
          GpuDevice::Event to) {
  const auto block = device.host().first(block_bytes);
  const GpuDevice::Stream stream = device.copy_stream(GpuDevice::Copy::kIn);
  bool good = device.copy_in(frame, block) == Status::kOk && device.record(from, stream) == Status::kOk;
  for (std::size_t i = 0; i < copies && good; ++i) good = device.copy_in(frame, block) == Status::kOk;
  if (device.record(to, stream) != Status::kOk) return false;  // and the device is lost
  const bool over = look_until_over(kWaitMax, [&] { return device.query(to) != Status::kBusy; });
  return good && over && device.failure().empty();
}

}  // namespace

double measure_link(GpuDevice& device, std::size_t block_bytes) {
  const FrameIndex frame(0);
  if (device.host().size() < block_bytes || device.create(frame) != Status::kOk) return 0;
  GpuDevice::Event from = nullptr;
  GpuDevice::Event to = nullptr;
  std::uint64_t ns = 0;
  const std::size_t copies = std::max(kBytes / block_bytes, kCopiesMin);
  const bool measured = device.make_timer(from) == Status::kOk && device.make_timer(to) == Status::kOk &&
                        copy(device, frame, block_bytes, copies, from, to) &&
                        device.elapsed(from, to, ns) == Status::kOk && ns > 0;
  if (from != nullptr) device.destroy_event(from);
  if (to != nullptr) device.destroy_event(to);
  device.destroy(frame);
  return measured ? static_cast<double>(block_bytes) * static_cast<double>(copies) / static_cast<double>(ns) : 0;
}

}  // namespace ebb
