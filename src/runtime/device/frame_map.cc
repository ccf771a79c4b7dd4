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

// So many of each kind at once: a launch may have to wait for all of them.
constexpr std::size_t kChangesMax = 8;

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
  if ((place.mapped != frame || place.changing) && !strict_) arriving_.push_back(block);
}

Status FrameMap::detach(BlockIndex block, FrameIndex frame) {
  Place& place = places_[block.value()];
  EBB_CHECK_EQ(place.wanted, frame);
  place.wanted = FrameIndex::none();
  let_leave(block);
  return Status::kOk;
}

// What is mapped there may go when all that uses it now is over.
void FrameMap::let_leave(BlockIndex block) {
  Place& place = places_[block.value()];
  ++place.departures;
  if (place.mapped.valid()) leaving_.push_back({block, place.mapped, place.departures, everything(place.mapped)});
}

bool FrameMap::stands(const Departure& departure) const {
  const Place& place = places_[departure.block.value()];
  return place.mapped == departure.frame && place.wanted != departure.frame && place.departures == departure.number;
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
    return departure.block == block && stands(departure);
  });
  EBB_CHECK(found != leaving_.end());
  if (const Status status = timelines_.wait_here(found->until); status != Status::kOk) return status;
  std::vector<BlockIndex> blocks{block};
  const Status status = unmap_all(blocks);
  if (status == Status::kOk) leaving_.erase(found);
  return status;
}

bool FrameMap::changing(std::span<const BlockIndex> blocks) const {
  return std::any_of(blocks.begin(), blocks.end(), [&](BlockIndex block) { return places_[block.value()].changing; });
}

Status FrameMap::apply(std::span<const BlockIndex> needed) {
  if (changing(needed)) return Status::kBusy;
  std::vector<BlockIndex> wanted;
  for (const BlockIndex block : needed) {
    const Place& place = places_[block.value()];
    EBB_CHECK(place.wanted.valid());
    if (place.mapped != place.wanted) wanted.push_back(block);
  }
  for (const BlockIndex block : wanted) {
    if (!places_[block.value()].mapped.valid()) continue;
    if (const Status status = clear(block); status != Status::kOk) return status;
  }
  return map_all(wanted);
}

void FrameMap::begin_changes(Changes& changes) {
  changes = {};
  const auto begin = [&](std::vector<Change>& kind, BlockIndex block, FrameIndex frame) {
    places_[block.value()].changing = true;
    frames_[frame.value()].changing = true;
    kind.push_back({block, frame, frame == places_[block.value()].mapped});
  };
  std::erase_if(arriving_, [&](BlockIndex block) {
    const Place& place = places_[block.value()];
    if (place.changing) return false;
    if (!place.wanted.valid() || place.mapped == place.wanted) return true;
    if (place.mapped.valid() || changes.arrivals.size() == kChangesMax) return false;
    begin(changes.arrivals, block, place.wanted);
    return true;
  });
  if (!changes.arrivals.empty()) return;  // somebody is about to need those
  std::erase_if(leaving_, [&](const Departure& departure) { return !stands(departure); });
  if (leaving_.empty()) return;
  timelines_.poll();
  std::erase_if(leaving_, [&](const Departure& departure) {
    if (changes.departures.size() == kChangesMax || !timelines_.known_done(departure.until)) return false;
    begin(changes.departures, departure.block, departure.frame);
    return true;
  });
}

// One by one: several in one call take no less time, and of each it is known what has become of it. What fails is left
// to whoever needs it, who tries again and can say what is wrong.
void FrameMap::make(Changes& changes) const {
  for (Change& arrival : changes.arrivals) {
    const BlockRange block{arrival.block, 1};
    arrival.mapped = device_.map(arrival.frame, arrival.block) == Status::kOk;
    // What may not be used is as good as not mapped.
    if (arrival.mapped && device_.permit(block) != Status::kOk) arrival.mapped = device_.unmap(block) != Status::kOk;
  }
  for (Change& departure : changes.departures) {
    departure.mapped = device_.unmap({departure.block, 1}) != Status::kOk;
  }
}

// In the meantime another frame may have come to be wanted there, or none.
void FrameMap::end_changes(Changes& changes) {
  for (std::vector<Change>* kind : {&changes.arrivals, &changes.departures}) {
    for (const Change& change : *kind) {
      Place& place = places_[change.block.value()];
      place.changing = false;
      frames_[change.frame.value()].changing = false;
      mappings_ += change.mapped && !place.mapped.valid() ? 1 : 0;
      place.mapped = change.mapped ? change.frame : FrameIndex::none();
      if (place.wanted != place.mapped) let_leave(change.block);
    }
  }
  for (const std::vector<Change>* kind : {&changes.arrivals, &changes.departures}) {
    for (const Change& change : *kind) {
      if (frames_[change.frame.value()].doomed) destroy(change.frame);
    }
  }
}

Status FrameMap::unmap(std::span<const BlockIndex> blocks) {
  std::vector<BlockIndex> mapped;
  for (const BlockIndex block : blocks) {
    const Place& place = places_[block.value()];
    if (place.mapped.valid() && !place.changing) mapped.push_back(block);
  }
  std::sort(mapped.begin(), mapped.end());
  mapped.erase(std::unique(mapped.begin(), mapped.end()), mapped.end());
  return unmap_all(mapped);
}

Status FrameMap::create(FrameIndex frame) {
  Frame& made = frames_[frame.value()];
  if (!made.doomed) return device_.create(frame);
  made.doomed = false;  // it still has its memory
  return Status::kOk;
}

void FrameMap::destroy(FrameIndex frame) {
  Frame& doomed = frames_[frame.value()];
  doomed.doomed = doomed.changing;
  if (doomed.doomed) return;
  if (timelines_.wait_here(everything(frame)) == Status::kOk) {
    std::vector<BlockIndex> last;
    std::erase_if(leaving_, [&](const Departure& departure) {
      if (departure.frame != frame) return false;
      if (stands(departure)) last.push_back(departure.block);
      return true;
    });
    static_cast<void>(unmap_all(last));
  }
  device_.destroy(frame);
  doomed = {};
}

}  // namespace ebb
