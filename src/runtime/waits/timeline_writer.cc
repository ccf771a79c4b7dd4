// See timeline_writer.h.
#include "runtime/waits/timeline_writer.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"

namespace ebb {
namespace {

constexpr std::uint64_t kEveryNs = 100'000'000;
constexpr std::uint64_t kCostShare = 200;
constexpr std::uint32_t kLooksMax = 64;  // at blocks of one tensor; of more blocks some stand for all
constexpr std::uint64_t kRowBytesMin = 1 << 20;
constexpr std::array<std::size_t, kTensorKinds> kRowsOfKind{0, 32, 12, 20, 0, 0};  // parameters come first, so not all

std::size_t key_of(const MemoryNotes::Note& note) {
  return std::hash<std::string>{}(note.name) + static_cast<std::size_t>(note.kind);
}

// How much of it is in memory.
std::uint64_t resident_bytes(const Core& core, const MemoryNotes::Note& note) {
  const std::uint64_t unit = core.block_bytes();
  const BlockRange blocks = core.blocks_of(note.offset, note.bytes);
  const std::uint32_t stride = 1 + blocks.count / kLooksMax;
  std::uint64_t looked = 0;
  std::uint64_t there = 0;
  for (std::uint32_t i = 0; i < blocks.count; i += stride) {
    const BlockIndex block(blocks.first.value() + i);
    const std::uint64_t begin = std::max(note.offset, block.value() * unit);
    const std::uint64_t bytes = std::min(note.offset + note.bytes, (block.value() + 1) * unit) - begin;
    looked += bytes;
    if (has_frame(core.table()[block].state)) there += bytes;
  }
  if (stride == 1 || looked == 0) return there;
  return static_cast<std::uint64_t>(static_cast<double>(note.bytes) * static_cast<double>(there) /
                                    static_cast<double>(looked));
}

}  // namespace

void TimelineWriter::open(RunTimeline* timeline, std::uint64_t now_ns) {
  timeline_ = timeline;
  timeline_->every_ns = kEveryNs;
  timeline_->opened_ns = now_ns;
}

// A note of what has a row already keeps it; then the largest of each kind get those that are left.
void TimelineWriter::follow(MemoryNotes& notes) {
  if (timeline_ == nullptr) return;
  std::array<std::vector<MemoryNotes::Note*>, kTensorKinds> without;
  for (MemoryNotes::Note& note : notes.all()) {
    if (note.bytes < kRowBytesMin) continue;
    const auto known = std::find(keys_.begin(), keys_.begin() + rows_, key_of(note));
    note.row = static_cast<std::uint32_t>(known - keys_.begin());
    if (note.row == rows_) without[static_cast<std::size_t>(note.kind)].push_back(&note);
    if (note.row == rows_) note.row = MemoryNotes::Note::kNoRow;
  }
  for (std::size_t kind = 0; kind < kTensorKinds; ++kind) {
    std::vector<MemoryNotes::Note*>& candidates = without[kind];
    const auto larger = [](const auto* a, const auto* b) { return a->bytes > b->bytes; };
    std::stable_sort(candidates.begin(), candidates.end(), larger);
    for (MemoryNotes::Note* const note : candidates) {
      if (used_[kind] == kRowsOfKind[kind] || rows_ == RunTimeline::kRowsMax) break;
      add_row(*note);
    }
  }
}

void TimelineWriter::add_row(MemoryNotes::Note& note) {
  TimelineRow& row = timeline_->row[rows_];
  note.name.copy(row.name, sizeof row.name - 1);
  row.bytes = note.bytes;
  row.kind = static_cast<std::uint64_t>(note.kind);
  std::memset(row.percent, TimelineRow::kAbsent, sizeof row.percent);
  keys_[rows_] = key_of(note);
  note.row = rows_++;
  ++used_[row.kind];
  timeline_->rows.store(rows_, std::memory_order_release);
}

void TimelineWriter::halve() {
  constexpr std::size_t half = RunTimeline::kSamplesMax / 2;
  for (std::size_t i = 0; i < half; ++i) {
    timeline_->sample[i] = timeline_->sample[2 * i + 1];
    for (TimelineRow& row : timeline_->row) row.percent[i] = row.percent[2 * i + 1];
  }
  for (TimelineRow& row : timeline_->row) std::memset(row.percent + half, TimelineRow::kAbsent, half);
  timeline_->samples.store(half, std::memory_order_release);
  timeline_->every_ns *= 2;
}

void TimelineWriter::note_kinds(TimelineSample& sample, std::uint64_t at, const Core& core, const MemoryNotes& notes) {
  for (const MemoryNotes::Note& note : notes.all()) {
    if (core.allocations().serial_of(note.offset) != note.serial) continue;
    const auto kind = static_cast<std::size_t>(note.kind);
    const std::uint64_t resident = resident_bytes(core, note);
    sample.kind_live[kind] += note.bytes;
    sample.kind_resident[kind] += resident;
    if (note.row == MemoryNotes::Note::kNoRow) continue;
    timeline_->row[note.row].percent[at] = static_cast<std::uint8_t>(100 * resident / note.bytes);
  }
}

void TimelineWriter::take(std::uint64_t now_ns, const Stats& stats, const Core& core, const MemoryNotes& notes) {
  if (timeline_->samples.load(std::memory_order_relaxed) == RunTimeline::kSamplesMax) halve();
  const std::uint64_t at = timeline_->samples.load(std::memory_order_relaxed);
  TimelineSample& sample = timeline_->sample[at];
  sample = {};
  sample.at_ns = now_ns - timeline_->opened_ns;
  sample.budget = stats.budget_bytes;
  sample.resident = stats.resident_bytes;
  sample.small = stats.small_bytes;
  sample.live = stats.live_bytes;
  sample.flash = stats.flash_bytes;
  sample.fetched = stats.fetched_bytes;
  sample.evicted = stats.evicted_bytes;
  sample.stall_ns = stats.stall_ns;
  sample.steps = stats.steps;
  note_kinds(sample, at, core, notes);
  timeline_->samples.store(at + 1, std::memory_order_release);
  const std::uint64_t cost_ns = monotonic_ns() - now_ns;
  next_ns_ = now_ns + std::max(timeline_->every_ns, kCostShare * cost_ns);
}

}  // namespace ebb
