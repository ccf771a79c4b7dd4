// See tier_queue.h.
#include "runtime/device/tier_queue.h"

#include "base/check.h"

namespace ebb {

TierQueue::TierQueue(GpuDevice& device, FrameMap& frames, Timelines& timelines, std::size_t block_bytes,
                     std::uint32_t host_extents, std::uint32_t depth)
    : device_(device),
      frames_(frames),
      timelines_(timelines),
      block_bytes_(block_bytes),
      host_extents_(host_extents),
      host_(host_extents),
      staging_(depth) {
  EBB_CHECK_LE(host_bytes(block_bytes, host_extents, depth), device.host().size());
}

std::span<std::byte> TierQueue::place(ExtentIndex extent) {
  return device_.host().subspan(extent.value() * block_bytes_, block_bytes_);
}

std::span<std::byte> TierQueue::staging(std::uint32_t token) {
  return device_.host().subspan((std::size_t{host_extents_} + token) * block_bytes_, block_bytes_);
}

// The copy waits for all that uses the frame or the place; both are then busy until it is over.
Status TierQueue::copy_out(std::span<std::byte> to, Fences& place, FrameIndex frame) {
  Fences before = frames_.everything(frame);
  before.add(place);
  std::uint64_t mark = 0;
  Status status = timelines_.wait(Timelines::kOut, before);
  if (status == Status::kOk) status = device_.copy_out(to, frame);
  if (status == Status::kOk) status = timelines_.mark(Timelines::kOut, mark);
  if (status != Status::kOk) return status;
  frames_.copied(frame, Timelines::kOut, mark);
  place.add(Timelines::kOut, mark);
  return status;
}

Status TierQueue::copy_in(FrameIndex frame, std::span<std::byte> from, Fences& place) {
  Fences before = frames_.everything(frame);
  before.add(place);
  std::uint64_t mark = 0;
  Status status = timelines_.wait(Timelines::kIn, before);
  if (status == Status::kOk) status = device_.copy_in(frame, from);
  if (status == Status::kOk) status = timelines_.mark(Timelines::kIn, mark);
  if (status != Status::kOk) return status;
  frames_.copied(frame, Timelines::kIn, mark);
  place.add(Timelines::kIn, mark);
  return status;
}

void TierQueue::start(const FlashRequest& request) {
  const bool write = request.kind == FlashRequest::Kind::kWrite;
  const bool host = request.extent.value() < host_extents_;
  Status status = Status::kOk;
  if (host) {
    Fences& place_fences = host_[request.extent.value()];
    status = write ? copy_out(place(request.extent), place_fences, request.frame)
                   : copy_in(request.frame, place(request.extent), place_fences);
  } else if (write) {
    status = copy_out(staging(request.token), staging_[request.token], request.frame);
  }
  if (host || status != Status::kOk) {
    completed_.push_back({request.token, status == Status::kOk ? status : Status::kIoError, false, Digest{}});
  } else {
    waiting_.push_back(request);
  }
}

void TierQueue::ready(std::vector<Job>& jobs) {
  std::erase_if(waiting_, [&](const FlashRequest& request) {
    // Of a lost device everything counts as done, but it may still use the buffer: nothing goes there any more.
    if (!timelines_.done(staging_[request.token]) || !device_.failure().empty()) return false;
    ++on_flash_;
    jobs.push_back({request, staging(request.token), (request.extent.value() - host_extents_) * block_bytes_});
    return true;
  });
}

void TierQueue::finish(const Job& job, const FlashCompletion& completion) {
  --on_flash_;
  FlashCompletion told = completion;
  if (!device_.failure().empty()) {
    told.status = Status::kIoError;  // what the device copied out last may be anything
  } else if (job.request.kind == FlashRequest::Kind::kRead && told.status == Status::kOk &&
             copy_in(job.request.frame, job.staging, staging_[job.request.token]) != Status::kOk) {
    told.status = Status::kIoError;
  }
  completed_.push_back(told);
}

bool TierQueue::pop(FlashCompletion& completion) {
  if (completed_.empty()) return false;
  completion = completed_.back();
  completed_.pop_back();
  return true;
}

}  // namespace ebb
