// MemoryNotes: what the program has said that its allocations are. A note is true of one allocation: when that has been
// freed, and another lies at its address, it says nothing.
//
// Owned by a runtime, under its lock; find() never allocates. Invariant: sorted by offset.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ebb/waits/waits.h"

namespace ebb {

class MemoryNotes {
 public:
  struct Note {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    std::uint64_t serial = 0;  // of the allocation
    TensorKind kind = TensorKind::kOther;
    std::string name;
    static constexpr std::uint32_t kNoRow = ~std::uint32_t{0};
    std::uint32_t row = kNoRow;  // in the timeline
  };

  // All that is known from now on, in any order; of what is told twice, as tied weights are, what comes first. Returns
  // what was, for the caller to free without the lock.
  std::vector<Note> replace(std::vector<Note> notes) {
    std::stable_sort(notes.begin(), notes.end(), [](const Note& a, const Note& b) { return a.offset < b.offset; });
    const auto same = [](const Note& a, const Note& b) { return a.offset == b.offset; };
    notes.erase(std::unique(notes.begin(), notes.end(), same), notes.end());
    return std::exchange(notes_, std::move(notes));
  }
  // The last that begins before `end` and ends after `begin`, or null.
  const Note* find(std::uint64_t begin, std::uint64_t end) const {
    auto after = std::lower_bound(notes_.begin(), notes_.end(), end,
                                  [](const Note& note, std::uint64_t offset) { return note.offset < offset; });
    if (after == notes_.begin()) return nullptr;
    const Note& note = *--after;
    return note.offset + note.bytes > begin ? &note : nullptr;
  }
  const std::vector<Note>& all() const { return notes_; }
  std::vector<Note>& all() { return notes_; }

 private:
  std::vector<Note> notes_;
};

}  // namespace ebb
