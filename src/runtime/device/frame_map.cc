// See frame_map.h.
#include "runtime/device/frame_map.h"

#include <algorithm>

#include "base/check.h"
#include "base/clock.h"

namespace ebb {
namespace {

// Adds its own life to a sum of nanoseconds.
class Timed {
 public:
  explicit Timed(std::uint64_t& sum) : sum_(sum), start_(monotonic_ns()) {}
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;
  ~Timed() { sum_ += monotonic_ns() - start_; }

 private:
  std::uint64_t& sum_;
  std::uint64_t start_;
};

// Calls `each` for every run of neighbours; stops at the first that fails.
template <typename Each>
Status for_each_run(std::vector<BlockIndex>& blocks, Each each) {
  std::sort(blocks.begin(), blocks.end());
  for (std::size_t first = 0; first < blocks.size();) {
    std::size_t end = first + 1;
    while (end < blocks.size() && blocks[end] == blocks[end - 1].next()) ++end;
    const BlockRange run{blocks[first], static_cast<std::uint32_t>(end - first)};
    if (const Status status = each(run); status != Status::kOk) return status;
    first = end;
  }
  return Status::kOk;
}

}  // namespace

FrameMap::FrameMap(GpuDevice& device, Timelines& timelines, std::uint32_t blocks, std::uint32_t frames, bool strict)
    : device_(device), timelines_(timelines), strict_(strict), frames_(frames), places_(blocks) {}

Fences FrameMap::everything(FrameIndex frame) const {
  Fences fences = frames_[frame.value()].before;
  fences.add(frames_[frame.value()].uses);
  return fences;
}

void FrameMap::renew(FrameIndex frame) {
  frames_[frame.value()].before.add(frames_[frame.value()].uses);
  frames_[frame.value()].uses = {};
}

void FrameMap::attach(FrameIndex frame, BlockIndex block) {
  renew(frame);
  Place& place = places_[block.value()];
  place.wanted = frame;
  if (place.mapped != frame && !strict_) arriving_.push_back(block);
}

Status FrameMap::detach(BlockIndex block, FrameIndex frame) {
  Place& place = places_[block.value()];
  EBB_CHECK_EQ(place.wanted, frame);
  place.wanted = FrameIndex::none();
  ++place.departures;
  if (place.mapped.valid()) leaving_.push_back({block, place.mapped, place.departures, everything(place.mapped)});
  return Status::kOk;
}

bool FrameMap::stands(const Departure& departure) const {
  const Place& place = places_[departure.block.value()];
  return place.mapped == departure.frame && place.wanted != departure.frame && place.departures == departure.number;
}

// What is not over yet is looked at again the next time.
Status FrameMap::let_leave(const Departure* must_leave) {
  if (must_leave != nullptr) {
    if (const Status status = timelines_.wait_here(must_leave->until); status != Status::kOk) return status;
  }
  const auto over = [&](const Departure& departure) { return !stands(departure); };
  std::erase_if(leaving_, over);
  if (leaving_.empty()) return Status::kOk;
  timelines_.poll();
  batch_.clear();
  for (const Departure& departure : leaving_) {
    if (timelines_.known_done(departure.until)) batch_.push_back(departure.block);
  }
  if (batch_.empty()) return Status::kOk;
  const Status status = unmap_all(batch_);
  std::erase_if(leaving_, over);
  return status;
}

Status FrameMap::unmap_all(std::vector<BlockIndex>& blocks) {
  const Timed timed(mapping_ns_);
  return for_each_run(blocks, [&](BlockRange run) {
    if (const Status status = device_.unmap(run); status != Status::kOk) return status;
    for (BlockIndex i = run.first; i != run.end(); i = i.next()) places_[i.value()].mapped = FrameIndex::none();
    return Status::kOk;
  });
}

Status FrameMap::map_all(std::vector<BlockIndex>& blocks) {
  if (blocks.empty()) return Status::kOk;
  const Timed timed(mapping_ns_);
  std::sort(blocks.begin(), blocks.end());
  blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
  Status mapped = Status::kOk;
  for (std::size_t i = 0; i < blocks.size() && mapped == Status::kOk; ++i) {
    Place& place = places_[blocks[i].value()];
    mapped = device_.map(place.wanted, blocks[i]);
    if (mapped == Status::kOk) {
      place.mapped = place.wanted;
      ++mappings_;
    } else {
      blocks.resize(i);
    }
  }
  const Status permitted = for_each_run(blocks, [&](BlockRange run) { return device_.permit(run); });
  // What may not be used is as good as not mapped.
  if (permitted != Status::kOk) static_cast<void>(unmap_all(blocks));
  return mapped == Status::kOk ? permitted : mapped;
}

// Takes away what is mapped at a block in place of what is wanted there.
Status FrameMap::clear(BlockIndex block) {
  const auto found = std::find_if(leaving_.begin(), leaving_.end(), [&](const Departure& departure) {
    return departure.block == block && places_[block.value()].mapped == departure.frame &&
           places_[block.value()].departures == departure.number;
  });
  EBB_CHECK(found != leaving_.end());
  const Departure departure = *found;
  return let_leave(&departure);
}

Status FrameMap::apply(std::span<const BlockIndex> needed) {
  if (const Status status = let_leave(nullptr); status != Status::kOk) return status;
  std::vector<BlockIndex> wanted;
  for (const BlockIndex block : needed) {
    Place& place = places_[block.value()];
    EBB_CHECK(place.wanted.valid());
    if (place.mapped == place.wanted) continue;
    if (place.mapped.valid()) {
      if (const Status status = clear(block); status != Status::kOk) return status;
      if (place.mapped.valid()) return Status::kIoError;
    }
    wanted.push_back(block);
  }
  if (const Status status = map_all(wanted); status != Status::kOk) return status;
  wanted.clear();
  std::erase_if(arriving_, [&](BlockIndex block) {
    const Place& place = places_[block.value()];
    if (!place.wanted.valid() || place.mapped == place.wanted) return true;
    if (place.mapped.valid()) return false;
    wanted.push_back(block);
    return true;
  });
  return map_all(wanted);
}

Status FrameMap::unmap(std::span<const BlockIndex> blocks) {
  std::vector<BlockIndex> mapped;
  for (const BlockIndex block : blocks) {
    if (places_[block.value()].mapped.valid()) mapped.push_back(block);
  }
  std::sort(mapped.begin(), mapped.end());
  mapped.erase(std::unique(mapped.begin(), mapped.end()), mapped.end());
  return unmap_all(mapped);
}

void FrameMap::destroy(FrameIndex frame) {
  if (timelines_.wait_here(everything(frame)) == Status::kOk) static_cast<void>(let_leave(nullptr));
  device_.destroy(frame);
  frames_[frame.value()] = {};
}

}  // namespace ebb
