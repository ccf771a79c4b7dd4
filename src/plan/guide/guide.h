// Guide: what a program is going to do from its very beginning, as far as somebody has found out without running it,
// and where the program is in that. It is a recording over several steps, whose allocations have serial numbers of
// their own; those of the program are bound to them as they appear, by their sizes and by the launches that use them.
//
// A launch of the program is matched to the next one with the same operator whose operands can be the same. Others,
// made of operators that the guide knows or inside of one, pass without a match; too many in a row, and the guide is
// lost.
//
// Owned by a policy, under the runtime's lock. serial_of() and next_need() never allocate; the rest may.
// Invariant: bound allocations and those of the program are one to one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/policy.h"
#include "plan/recording.h"

namespace ebb {

class Guide {
 public:
  using Position = Recording::Position;

  // `again_from`: where the last step of the recording begins, which is taken to repeat. The recording holds no
  // allocation from before it.
  Guide(Recording recording, Position again_from);

  const Recording& recording() const { return recording_; }
  // The next launch expected.
  Position cursor() const { return cursor_; }
  // Whether the program does something else.
  bool lost() const { return misses_ >= kMissesMax; }
  // Whether all of it, but for a rest that may not have been matched, is behind.
  bool over() const { return cursor_ + recording_.size() / kRestShare >= recording_.size(); }

  // The program allocates. When that is first needed; kNever: not known.
  Position allocated(std::uint64_t serial, std::uint64_t bytes);
  void freed(std::uint64_t serial);
  // The program launches. The event that is, or kNever; then operands() has what it touches in the order of the event's
  // uses, with nothing for those that it does not touch, and the events before it are behind.
  Position launched(std::uint64_t op, std::span<const Touch> touches);
  std::span<const Touch> operands() const { return operands_; }

  // The program's serial for a reference of the recording; 0: none now.
  std::uint64_t serial_of(std::uint32_t reference) const { return serials_[reference]; }
  // When an allocation is needed, or freed, after this use of it, in events; from recording().size() on in the step
  // that follows; kNeverNeeded: not at all, as far as is known.
  static constexpr std::uint64_t kNeverNeeded = ~0ull;
  std::uint64_t next_need(const Recording::Use& use) const;

 private:
  static constexpr Position kLaunchWindow = 512;     // events in which a launch is looked for
  static constexpr Position kLooseWindow = 16;       // if allocations may turn out to be others than was thought
  static constexpr std::uint32_t kMissesMax = 8192;  // launches in a row
  static constexpr Position kRestShare = 32;

  struct Live {
    std::uint64_t bytes = 0;
    std::uint32_t reference = Recording::kNone;
    bool used = false;  // by a launch that was matched: the reference is certain
  };
  Live* find(std::uint64_t serial) { return serial < live_.size() ? &live_[serial] : nullptr; }
  Position search(std::uint64_t op, std::span<const Touch> touches);
  bool fits(Position position, std::span<const Touch> touches, bool loose);
  std::uint32_t reference_for(const Recording::Event& event, std::uint64_t serial, bool loose) const;
  void bind(std::uint64_t serial, std::uint32_t reference);
  void unbind(std::uint64_t serial);

  Recording recording_;
  Position at_ = 0;      // behind the latest launch
  Position cursor_ = 0;  // the next launch
  std::uint32_t misses_ = 0;
  std::vector<std::uint64_t> serials_;     // by reference
  std::vector<Position> maker_;            // by reference: the launch before its allocation; kNever: none
  std::vector<Position> again_;            // by reference: its first use in the last step; kNever: none
  std::vector<bool> taken_;                // scratch of fits(), by reference
  std::vector<std::uint32_t> references_;  // scratch of fits(), by touch
  std::vector<Live> live_;                 // by serial of the program
  std::vector<Touch> operands_;
};

}  // namespace ebb
