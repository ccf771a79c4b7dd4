// Slots: the iterations of a program merged into one. A slot is a launch that some iteration has had: the same operator
// on the same lasting tensors for the n-th time in its iteration, or the n-th launch on none such after one that is. In
// an iteration some slots run, in their order, and others are left out.
//
// Whether a slot is going to run is known from what it depends on, its gate: the slot that used one of its tensors
// first in the same iteration, or the one before it. A weight that the forward pass has used is used by the backward
// pass and by the optimizer, and its state after it; one that the forward pass left out is not. This is correlation as
// in branch predictors (Yeh and Patt, MICRO 1991), along the tensors instead of along a history of bits. A slot without
// a gate comes as often as it did.
//
// Owned by a Routine, under the runtime's lock. enter() and step() allocate, all else does not. Invariant: order()
// grows along next(); a gate is never itself gated by what depends on it within an iteration, as it ran before.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

namespace ebb {

class Slots {
 public:
  using Slot = std::uint32_t;
  static constexpr Slot kNone = 0xffffffff;
  static constexpr std::size_t kSlotsMax = std::size_t{1} << 16;  // of a larger program the rest is not learned

  // What a slot did to a tensor when it ran last. Frees belong to the launch before them.
  enum class Kind : std::uint8_t { kUsed, kMade, kFreed };
  struct Operand {
    std::uint64_t key = 0;  // of the tensor (routine.h)
    std::uint64_t bytes = 0;
    std::uint32_t first_block = 0;  // in the tensor
    std::uint32_t blocks = 0;
    Kind kind = Kind::kUsed;
  };

  // The slot of this key; kNone: there is none.
  Slot find(std::uint64_t key) const;
  // It runs now, after the one that ran last; a new one is behind that. kNone: there are too many.
  Slot enter(std::uint64_t key);
  // What the slot that runs depends on, as it seems; kNone: on nothing.
  void learn_gate(Slot slot, Slot before);
  // The iteration is over: what ran, and what did not though it could have.
  void step();

  Slot first() const { return first_; }
  Slot current() const { return current_; }  // kNone: nothing has run in this iteration
  Slot next(Slot slot) const { return slots_[slot].next; }
  std::uint64_t order(Slot slot) const { return slots_[slot].order; }
  bool is_new(Slot slot) const { return slots_[slot].runs == 0; }  // this is the first iteration in which it runs
  bool has_run(Slot slot) const { return slots_[slot].ran_in == iteration_; }
  bool is_past(Slot slot) const { return current_ != kNone && slots_[slot].order <= slots_[current_].order; }
  // How likely it is that the slot is yet to run in this iteration; and that it runs in an iteration.
  double chance(Slot slot) const;
  double usual(Slot slot) const;
  // Of the times that it could have run.
  double share(Slot slot) const { return slots_[slot].share; }
  // Those that could have run in this iteration, and mostly do so, but did not.
  template <typename F>
  void for_left_out(double least_share, F&& slot_left_out) const {
    for (Slot slot = first_; slot != kNone; slot = slots_[slot].next) {
      const Entry& entry = slots_[slot];
      const bool could = entry.gate == kNone || has_run(entry.gate);
      if (could && !has_run(slot) && entry.share >= least_share) slot_left_out(slot);
    }
  }
  // When in the iteration: the launches that come before it, each as far as it is likely, in units of kTick a launch.
  static constexpr std::uint64_t kTick = 1024;
  std::uint64_t when(Slot slot) const { return slots_[slot].when; }
  std::uint64_t now() const { return now_; }
  std::uint64_t length() const { return length_; }

  // What it took when it ran last.
  std::uint64_t duration_ns(Slot slot) const { return slots_[slot].ns; }
  void ran(std::uint64_t ns) {
    if (current_ != kNone) slots_[current_].ns += ns;
  }

  std::vector<Operand>& operands(Slot slot) { return slots_[slot].operands; }
  const std::vector<Operand>& operands(Slot slot) const { return slots_[slot].operands; }
  const std::vector<Slot>& dependents(Slot slot) const { return slots_[slot].dependents; }

  void validate() const;

 private:
  struct Entry {
    std::uint64_t key = 0;
    std::uint64_t order = 0;
    std::uint64_t when = 0;
    Slot next = kNone, previous = kNone;
    Slot gate = kNone;
    std::uint8_t gate_misses = 0;  // it ran although its gate had not
    double share = 0;              // of the iterations in which its gate ran, or of all
    std::uint32_t seen = 0;        // how many these are
    std::uint32_t runs = 0;        // iterations in which it ran, up to the one before
    std::uint32_t ran_in = 0;      // the latest iteration
    std::uint64_t ns = 0;          // in that
    std::vector<Operand> operands;
    std::vector<Slot> dependents;  // whose gate this is
  };

  void link_behind(Slot slot, Slot before);
  void unlink(Slot slot);
  void renumber();
  void forget(Slot slot);
  void set_gate(Slot slot, Slot gate);

  std::vector<Entry> slots_;
  std::vector<Slot> unused_;
  std::map<std::uint64_t, Slot> by_key_;
  Slot first_ = kNone;
  Slot current_ = kNone;
  std::uint32_t iteration_ = 1;
  std::uint64_t now_ = 0;
  std::uint64_t length_ = 0;
};

}  // namespace ebb
