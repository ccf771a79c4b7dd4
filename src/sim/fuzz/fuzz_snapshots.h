// FuzzSnapshots: what children of a fuzzer's program must find: the content of the moment of a fork, at once or when it
// has been written, until they end.
#pragma once

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "sim/fuzz/fuzz_world.h"

namespace ebb {

class FuzzSnapshots : FuzzPart {
 public:
  explicit FuzzSnapshots(FuzzWorld& world) : FuzzPart(world) {}

  // Takes a snapshot, as at a fork, and remembers what the child must find, at once or when it has been written.
  void snapshot() {
    if (scenario_.steady || snapshots_.size() >= kSnapshotsMax) return;
    driver_.give_up_kept();
    settle_written();
    Core& core = driver_.core();
    std::vector<BlockIndex> stay;
    core.engine().freeze(stay);
    history_.add("snapshot, %u to be written, %zu stay", core.engine().owed(), stay.size());
    Snapshot snapshot;
    snapshot.extents = core.snapshot();
    for (std::uint32_t i = 0; i < model_.blocks(); ++i) {
      const BlockIndex index(i);
      const Block& block = core.table()[index];
      if (block.owed) {
        const std::span<const std::byte> content = driver_.memory().home(block.frame);
        EBB_CHECK(model_.matches(index, content));
        snapshot.owed[block.frame.value()].assign(content.begin(), content.end());
        continue;
      }
      if (!block.extent.valid()) continue;
      Kept kept{block.extent, core.extents().digest_of(block.extent), std::vector<std::byte>(kBlockBytes)};
      if (damaged(block.extent)) continue;
      EBB_CHECK(driver_.flash().read_now(read_of(kept.extent, kept.digest), kept.content) == Status::kOk);
      // What a child finds is what was there at the fork; what it cannot find it is told.
      EBB_CHECK(model_.matches(index, kept.content));
      snapshot.blocks.push_back(std::move(kept));
    }
    snapshots_.push_back(std::move(snapshot));
    driver_.pump();
  }

  // What has been written for children is theirs.
  void settle_written() {
    Core& core = driver_.core();
    for (const Engine::Written& written : core.engine().written()) {
      for (Snapshot& snapshot : snapshots_) {
        const auto found = snapshot.owed.find(written.frame.value());
        if (found == snapshot.owed.end()) continue;
        if (written.extent.valid()) {
          core.retain(written.extent);
          snapshot.extents.push_back(written.extent);
          snapshot.blocks.push_back(
              {written.extent, core.extents().digest_of(written.extent), std::move(found->second)});
        }
        snapshot.owed.erase(found);
      }
      if (written.extent.valid()) core.release_snapshot({&written.extent, 1});
    }
    core.engine().forget_written();
    const bool wanted = std::ranges::any_of(snapshots_, [](const Snapshot& kept) { return !kept.owed.empty(); });
    if (core.engine().owed() == 0 || wanted) return;
    history_.add("thaw");
    core.engine().thaw();
    driver_.pump();
  }

  void release_snapshot() {
    if (snapshots_.empty()) return;
    const std::size_t which = rng_.below(snapshots_.size());
    history_.add("release_snapshot(%zu)", which);
    std::vector<std::byte> content(kBlockBytes);
    for (const Kept& kept : snapshots_[which].blocks) {
      const Status status = driver_.flash().read_now(read_of(kept.extent, kept.digest), content);
      if (damaged(kept.extent)) continue;
      EBB_CHECK(status == Status::kOk);
      EBB_CHECK(content == kept.content);
    }
    driver_.core().release_snapshot(snapshots_[which].extents);
    snapshots_.erase(snapshots_.begin() + static_cast<std::ptrdiff_t>(which));
    // Evictions go on where there is room again; a device that refuses what it promised may stand still for less.
    const Core& core = driver_.core();
    const bool room = core.extents().free(Tier::kFlash) > 0;
    EBB_CHECK(!room || !core.engine().flash_full() || scenario_.faults[Fault::kNoSpace].numerator > 0);
    driver_.pump();
  }

  void finish() {
    while (!snapshots_.empty()) release_snapshot();
  }

 private:
  FlashRequest read_of(ExtentIndex extent, const Digest& digest) {
    const ExtentPool& extents = driver_.core().extents();
    const bool in_file = ExtentPool::in_file(extent);  // what was not known at the fork may be by now
    return {.has_expected = extents.has_digest(extent),
            .extent = extent,
            .expected = in_file ? extents.digest_of(extent) : digest,
            .place = extents.place_of(extent)};
  }

  bool damaged(ExtentIndex extent) const {
    const FilePlace place = driver_.core().extents().place_of(extent);
    return (place.valid() ? driver_.device().damage(place) : driver_.device().damage(extent.value())).has_value();
  }

  static constexpr std::size_t kSnapshotsMax = 2;

  struct Kept {  // a block of a snapshot, as it was
    ExtentIndex extent;
    Digest digest;
    std::vector<std::byte> content;
  };
  struct Snapshot {
    std::vector<ExtentIndex> extents;
    std::vector<Kept> blocks;
    std::map<std::uint32_t, std::vector<std::byte>> owed;  // by frame: what was in it at the moment
  };

  std::vector<Snapshot> snapshots_;
};

}  // namespace ebb
