// See cuda_device.h. Making and describing a device: cuda_open.cc.
#include "drivers/cuda/cuda_device.h"

#include <algorithm>

#include "base/check.h"
#include "drivers/cuda/cuda_current.h"

namespace ebb {

using cuda::kSuccess;

CudaDevice::~CudaDevice() {
  // Of a lost device nobody can say what it still does with its memory and ours: the driver frees it with the process.
  if (lost()) return;
  release();
  gpu_.let_go();
}

void CudaDevice::release() {
  const cuda::Current current(gpu_.api, gpu_.context);
  bool unmapped = true;
  for (std::uint32_t i = 0; i < blocks_.size(); ++i) {
    if (blocks_[i]) unmapped &= gpu_.api.unmap(address(BlockIndex(i)), config_.block_bytes) == kSuccess;
  }
  for (std::uint32_t i = 0; i < frames_.size(); ++i) {
    if (frames_[i] == 0) continue;
    unmapped &= gpu_.api.unmap(home(FrameIndex(i)), config_.block_bytes) == kSuccess;
    static_cast<void>(gpu_.api.release(frames_[i]));
  }
  changes_.reset();
  if (in_ != nullptr) static_cast<void>(gpu_.api.stream_destroy(in_));
  if (note_ != nullptr) static_cast<void>(gpu_.api.stream_destroy(note_));
  if (out_ != nullptr) static_cast<void>(gpu_.api.stream_destroy(out_));
  if (space_ != 0 && unmapped) static_cast<void>(gpu_.api.unreserve(space_, bytes()));
  if (homes_ != 0 && unmapped) static_cast<void>(gpu_.api.unreserve(homes_, config_.frames * config_.block_bytes));
  if (host_ != nullptr) static_cast<void>(gpu_.api.host_free(host_));
}

Status CudaDevice::create(FrameIndex frame) {
  if (lost()) return Status::kIoError;
  EBB_CHECK_EQ(frames_[frame.value()], 0u);
  const cuda::Current current(gpu_.api, gpu_.context);
  cuda::Handle handle = 0;
  const std::size_t bytes = config_.block_bytes;
  if (const Status status = status_of(gpu_.api.create(&handle, bytes, &properties_, 0), "cuMemCreate");
      status != Status::kOk) {
    return status;
  }
  Status status = status_of(gpu_.api.map(home(frame), bytes, 0, handle, 0), "cuMemMap");
  if (status == Status::kOk) {
    status = permit(home(frame), bytes);
    if (status != Status::kOk) static_cast<void>(gpu_.api.unmap(home(frame), bytes));
  }
  if (status != Status::kOk) {
    static_cast<void>(gpu_.api.release(handle));
    return status;
  }
  frames_[frame.value()] = handle;
  return Status::kOk;
}

void CudaDevice::destroy(FrameIndex frame) {
  if (lost()) return;
  EBB_CHECK_NE(frames_[frame.value()], 0u);
  const cuda::Current current(gpu_.api, gpu_.context);
  static_cast<void>(status_of(gpu_.api.unmap(home(frame), config_.block_bytes), "cuMemUnmap"));
  static_cast<void>(status_of(gpu_.api.release(frames_[frame.value()]), "cuMemRelease"));
  frames_[frame.value()] = 0;
}

Status CudaDevice::map(FrameIndex frame, BlockIndex block) {
  if (lost()) return Status::kIoError;
  EBB_CHECK_NE(frames_[frame.value()], 0u);
  EBB_CHECK(!blocks_[block.value()]);
  const cuda::Current current(gpu_.api, gpu_.context);
  const Status status =
      status_of(gpu_.api.map(address(block), config_.block_bytes, 0, frames_[frame.value()], 0), "cuMemMap");
  if (status == Status::kOk) blocks_[block.value()] = true;
  return status;
}

Status CudaDevice::permit(BlockRange blocks) {
  if (lost()) return Status::kIoError;
  const cuda::Current current(gpu_.api, gpu_.context);
  return permit(address(blocks.first), blocks.count * config_.block_bytes);
}

Status CudaDevice::permit(cuda::Pointer address, std::size_t bytes) {
  const cuda::AccessDescriptor access{properties_.location, cuda::kAccessReadWrite};
  return status_of(gpu_.api.set_access(address, bytes, &access, 1), "cuMemSetAccess");
}

Status CudaDevice::unmap(BlockRange blocks) {
  if (lost()) return Status::kIoError;
  const cuda::Current current(gpu_.api, gpu_.context);
  const Status status =
      status_of(gpu_.api.unmap(address(blocks.first), blocks.count * config_.block_bytes), "cuMemUnmap");
  if (status != Status::kOk) return status;
  for (BlockIndex i = blocks.first; i != blocks.end(); i = i.next()) {
    EBB_CHECK(blocks_[i.value()]);
    blocks_[i.value()] = false;
  }
  return status;
}

Status CudaDevice::copy_in(FrameIndex frame, std::span<const std::byte> from) {
  if (lost()) return Status::kIoError;
  EBB_CHECK_EQ(from.size(), config_.block_bytes);
  const cuda::Current current(gpu_.api, gpu_.context);
  return status_of(gpu_.api.copy_in(home(frame), from.data(), from.size(), in_), "cuMemcpyHtoDAsync");
}

Status CudaDevice::copy_out(std::span<std::byte> to, FrameIndex frame) {
  if (lost()) return Status::kIoError;
  EBB_CHECK_EQ(to.size(), config_.block_bytes);
  const cuda::Current current(gpu_.api, gpu_.context);
  return status_of(gpu_.api.copy_out(to.data(), home(frame), to.size(), out_), "cuMemcpyDtoHAsync");
}

Status CudaDevice::note(FrameIndex frame, std::uint32_t place) {
  if (lost()) return Status::kIoError;
  const cuda::Current current(gpu_.api, gpu_.context);
  return status_of(changes_->note(home(frame), place, note_), "cuLaunchKernel");
}

Status CudaDevice::copy_out_changed(FrameIndex frame, std::uint32_t place) {
  if (lost()) return Status::kIoError;
  const cuda::Current current(gpu_.api, gpu_.context);
  std::byte* const to = host().data() + place * config_.block_bytes;
  return status_of(changes_->copy_changed(home(frame), to, place, out_), "cuLaunchKernel");
}

Status CudaDevice::make_event(Event& event) { return make_event(event, cuda::kEventWithoutTiming); }

Status CudaDevice::make_timer(Event& event) { return make_event(event, cuda::kEventDefault); }

Status CudaDevice::make_event(Event& event, unsigned flags) {
  if (lost()) return Status::kIoError;
  const cuda::Current current(gpu_.api, gpu_.context);
  cuda::Event made = nullptr;
  const Status status = status_of(gpu_.api.event_create(&made, flags), "cuEventCreate");
  event = made;
  return status;
}

void CudaDevice::destroy_event(Event event) {
  if (lost()) return;
  const cuda::Current current(gpu_.api, gpu_.context);
  static_cast<void>(status_of(gpu_.api.event_destroy(static_cast<cuda::Event>(event)), "cuEventDestroy"));
}

Status CudaDevice::record(Event event, Stream stream) {
  if (lost()) return Status::kIoError;
  const cuda::Current current(gpu_.api, gpu_.context);
  // Without the event nobody could tell when what the stream was given is over.
  const cuda::Result result = gpu_.api.event_record(static_cast<cuda::Event>(event), static_cast<cuda::Stream>(stream));
  if (result != kSuccess) lose("cuEventRecord", result);
  return result == kSuccess ? Status::kOk : Status::kIoError;
}

Status CudaDevice::wait(Stream stream, Event event) {
  if (lost()) return Status::kIoError;
  const cuda::Current current(gpu_.api, gpu_.context);
  return status_of(gpu_.api.stream_wait(static_cast<cuda::Stream>(stream), static_cast<cuda::Event>(event), 0),
                   "cuStreamWaitEvent");
}

Status CudaDevice::query(Event event) {
  if (lost()) return Status::kIoError;
  const cuda::Current current(gpu_.api, gpu_.context);
  const cuda::Result result = gpu_.api.event_query(static_cast<cuda::Event>(event));
  if (result == cuda::kNotReady) return Status::kBusy;
  // Whatever else it is, the work before the event can no longer be told to be over.
  if (result != kSuccess) lose("the work before an event", result);
  return result == kSuccess ? Status::kOk : Status::kIoError;
}

Status CudaDevice::elapsed(Event from, Event to, std::uint64_t& ns) {
  if (lost()) return Status::kIoError;
  const cuda::Current current(gpu_.api, gpu_.context);
  float milliseconds = 0;
  const cuda::Result result =
      gpu_.api.event_elapsed(&milliseconds, static_cast<cuda::Event>(from), static_cast<cuda::Event>(to));
  if (result == cuda::kNotReady) return Status::kBusy;
  ns = static_cast<std::uint64_t>(std::max(milliseconds, 0.0F) * 1e6F);
  return status_of(result, "cuEventElapsedTime");
}

Status CudaDevice::status_of(cuda::Result error, const char* what) {
  if (error == kSuccess) return Status::kOk;
  if (error == cuda::kOutOfMemory) return Status::kNoMemory;
  if (cuda::is_fatal(error)) lose(what, error);
  return Status::kIoError;
}

void CudaDevice::lose(const char* what, cuda::Result error) {
  if (lost()) return;
  GpuDevice::lose("the GPU '" + gpu_.name + "' is lost to this process: " + std::string(what) + " failed with " +
                  gpu_.api.text(error) +
                  ". A kernel that touches more than was announced does this (EBB_DEVICE_STRICT=1 finds it), and so " +
                  "does failing hardware. Start the program again.");
}

}  // namespace ebb
