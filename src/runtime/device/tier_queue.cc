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
      noted_(host_extents),
      staging_(depth) {
  EBB_CHECK_LE(host_bytes(block_bytes, host_extents, depth), device.host().size());
}

std::span<std::byte> TierQueue::place(ExtentIndex extent) {
  return device_.host().subspan(extent.value() * block_bytes_, block_bytes_);
}

std::span<std::byte> TierQueue::staging(std::uint32_t token) {
  return device_.host().subspan((std::size_t{host_extents_} + token) * block_bytes_, block_bytes_);
}

Fences TierQueue::before(FrameIndex frame, const Fences& place) const {
  Fences fences = frames_.everything(frame);
  fences.add(place);
  return fences;
}

// Work in a line that waits for `before`; the frame and the place are then busy until it is over.
template <typename Work>
Status TierQueue::run(std::uint32_t line, const Fences& before, FrameIndex frame, Fences& place, Work work) {
  std::uint64_t mark = 0;
  Status status = timelines_.wait(line, before);
  if (status == Status::kOk) status = work();
  if (status == Status::kOk) status = timelines_.mark(line, mark);
  if (status != Status::kOk) return status;
  frames_.copied(frame, line, mark);
  place.add(line, mark);
  return status;
}

Status TierQueue::copy_out(std::span<std::byte> to, Fences& place, FrameIndex frame) {
  return run(Timelines::kOut, before(frame, place), frame, place, [&] { return device_.copy_out(to, frame); });
}

Status TierQueue::copy_in(FrameIndex frame, std::span<std::byte> from, Fences& place) {
  return run(Timelines::kIn, before(frame, place), frame, place, [&] { return device_.copy_in(frame, from); });
}

// A block leaves for host memory. What has left from there before may well be what is there still: then it is worth
// knowing.
Status TierQueue::leave(const FlashRequest& request) {
  const std::uint32_t extent = request.extent.value();
  const FrameIndex frame = request.frame;
  Fences& fences = host_[extent];
  const Fences earlier = before(frame, fences);
  const bool worth_knowing = request.has_expected && device_.tells_changes();
  if (worth_knowing && noted_[extent]) {
    const Status status =
        run(Timelines::kOut, earlier, frame, fences, [&] { return device_.copy_out_changed(frame, extent); });
    noted_[extent] = status == Status::kOk;
    return status;
  }
  noted_[extent] = false;
  Status status = copy_out(place(request.extent), fences, frame);
  if (!worth_knowing || status != Status::kOk) return status;
  // Beside the copy, which reads the same frame, and waits for the same.
  status = run(Timelines::kNote, earlier, frame, fences, [&] { return device_.note(frame, extent); });
  noted_[extent] = status == Status::kOk;
  return status;
}

void TierQueue::start(const FlashRequest& request) {
  const bool write = request.kind == FlashRequest::Kind::kWrite;
  const bool host = request.extent.value() < host_extents_;
  Status status = Status::kOk;
  if (host) {
    status = write ? leave(request) : copy_in(request.frame, place(request.extent), host_[request.extent.value()]);
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
