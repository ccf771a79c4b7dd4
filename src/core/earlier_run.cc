// See earlier_run.h.
#include "core/earlier_run.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace ebb {

void EarlierRun::expect(FilePass pass) {
  pass_.reset();
  if (pass.launches.size() < 2) return;
  pass_ = std::move(pass);
  by_op_.clear();
  for (std::uint32_t i = 0; i < pass_->launches.size(); ++i) by_op_.emplace(pass_->launches[i].op, i);
  before_.clear();
  others_ = 0;
}

std::optional<Recording> EarlierRun::begins(std::uint64_t op, std::span<const Touch> touches) {
  const auto lasting = [](const Touch& touch) { return touch.allocation >= kLastingSerials; };
  if (!pass_ || std::ranges::none_of(touches, lasting)) return std::nullopt;
  const std::vector<std::uint32_t> here = places_of(op, touches);
  const auto size = static_cast<std::uint32_t>(pass_->launches.size());
  const auto found = std::ranges::find_if(here, [&](std::uint32_t place) {
    return std::ranges::find(before_, (place + size - 1) % size) != before_.end();
  });
  if (found != here.end()) {
    std::optional<Recording> recording = resolve(*found);
    forget();
    return recording;
  }
  before_ = here;
  if (++others_ >= kLaunchesMax) forget();
  return std::nullopt;
}

// Which launches of the iteration this may be: the operator and what it uses first are the same.
std::vector<std::uint32_t> EarlierRun::places_of(std::uint64_t op, std::span<const Touch> touches) const {
  std::vector<std::uint32_t> places;
  for (auto [each, end] = by_op_.equal_range(op); each != end; ++each) {
    const FilePass::Use& use = pass_->uses[pass_->launches[each->second].first_use];
    const bool used = std::ranges::any_of(touches, [&](const Touch& touch) { return files_.is_part(touch, use); });
    if (used) places.push_back(each->second);
  }
  return places;
}

// Nothing, if some of it is not mapped, or launches have used it as a part of something else.
std::optional<Recording> EarlierRun::resolve(std::uint32_t first) {
  Recording recording;
  recording.begin(state_.serial + 1, state_.serial + 1);
  std::vector<Touch> touches;
  std::vector<BlockRange> places;
  std::vector<BlockIndex> first_blocks;
  for (std::size_t i = 0; i < pass_->launches.size(); ++i) {
    const FilePass::Launch& launch = pass_->launches[(first + i) % pass_->launches.size()];
    touches.clear();
    places.clear();
    first_blocks.clear();
    for (const FilePass::Use& use : std::span(pass_->uses).subspan(launch.first_use, launch.uses)) {
      const std::uint64_t offset = files_.find(use);
      if (offset == MappedFiles::kNowhere) return std::nullopt;
      const MappedFiles::Part& part = *files_.part_of(offset, use.bytes);
      if (part.bytes != use.bytes) return std::nullopt;
      places.push_back(state_.blocks_of(offset, use.bytes));
      first_blocks.push_back(places.back().first);
      const Recording::Use blocks{0, use.first_block, use.blocks};
      touches.push_back({part.serial, use.bytes, blocks.of(places.back()), false});
    }
    recording.add_launch(launch.op, touches, first_blocks);
    recording.add_duration(launch.ns);
    for (std::size_t use = 0; use < touches.size(); ++use) recording.add_place(touches[use].allocation, places[use]);
  }
  return recording;
}

FilePass EarlierRun::describe(const Recording& iteration) const {
  FilePass pass;
  const auto parts = files_.parts_in_files();
  for (Recording::Position i = 0; i < iteration.size(); ++i) {
    const Recording::Event& event = iteration.event(i);
    if (event.kind != Recording::Kind::kLaunch) continue;
    const auto first = static_cast<std::uint32_t>(pass.uses.size());
    for (const Recording::Use& use : iteration.uses(event)) {
      const auto part = parts.find(iteration.reference(use.reference).serial);
      if (part == parts.end()) continue;
      pass.uses.push_back({part->second, use.first_block, use.blocks});
    }
    const auto uses = static_cast<std::uint32_t>(pass.uses.size()) - first;
    if (uses > 0) {
      pass.launches.push_back({event.op, event.ns, first, uses});
    } else if (!pass.launches.empty()) {
      pass.launches.back().ns += event.ns;
    }
  }
  return pass;
}

}  // namespace ebb
