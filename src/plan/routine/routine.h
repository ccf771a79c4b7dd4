// Routine: follows a program whose iterations are not alike through what it does in most of them (slots.h): when each
// block is likely to be needed again, and which absent one to fetch next.
//
// A tensor is known from one iteration to the next by its *key*: a lasting one by its serial number, one that was made
// in this iteration or the one before by the slot that made it. What is likely is fetched ahead in the order of the
// program, as far as it fits into memory together with all that is needed until then. What is unlikely to be needed in
// this iteration counts as needed in a later one: after as many as it takes on average (cost and benefit as in
// Patterson et al., SOSP 1995, with the time between uses for the cost of a block that is displaced).
//
// Owned by a policy, under the runtime's lock. keep() and ahead() never allocate. Time is in ticks of Slots, and grows.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "plan/follow/agreement.h"
#include "plan/follow/block_marks.h"
#include "plan/follow/next_uses.h"
#include "plan/policy.h"
#include "plan/routine/slots.h"
#include "plan/routine/vacancies.h"

namespace ebb {

class Routine {
 public:
  void budget(std::uint64_t block_bytes, std::uint32_t frames);
  // Something that was there before the program did what it is told to do from here on, or that is no allocation.
  void lasts(std::uint64_t serial, BlockRange blocks);
  void allocated(std::uint64_t serial, std::uint64_t bytes, BlockRange blocks);
  void freed(std::uint64_t serial);
  void launched(std::uint64_t op, std::span<const Touch> touches);
  void ran(std::uint64_t ns) { slots_.ran(ns); }
  // The iteration is over. `flash_in_ns`: what a block takes from there.
  void step(double flash_in_ns);

  static constexpr std::uint64_t kNever = ~std::uint64_t{0};
  // When a block is likely to be needed; kNever: not as far as is known.
  std::uint64_t next_use(BlockIndex block) const;
  // And when the iteration is likely to end.
  std::uint64_t end() const { return base_ + std::max(slots_.length(), slots_.now()); }
  // The absent block to fetch next; none if none is likely enough to be needed, or if it is early.
  struct Next {
    BlockIndex block;
    std::uint64_t when = 0;
    bool urgent = false;  // it comes too late if it does not begin now
  };
  Next ahead(const PageTable& table);
  // How far the iteration that ended last was foreseen: what was likely is what was expected.
  const Agreement& agreement() const { return agreement_; }

  void validate() const { slots_.validate(); }

 private:
  using Slot = Slots::Slot;
  struct Tensor {
    BlockRange blocks;
    std::uint64_t bytes = 0;
    std::uint64_t made = 0;       // its key in the iteration that made it; 0: it was there before
    std::uint32_t born = 0;       // the iteration
    std::uint32_t used_in = 0;    // the latest iteration
    Slot used_by = Slots::kNone;  // the first slot in that
  };
  using Tensors = std::map<std::uint64_t, Tensor>;  // by serial number

  void add(std::uint64_t serial, const Tensor& tensor);
  std::uint64_t key_of(std::uint64_t serial, const Tensor& tensor) const;
  bool is_old(const Tensor& tensor) const { return tensor.born != iteration_; }
  bool is_lasting(const Tensor& tensor) const { return tensor.made == 0 || tensor.born + 1 < iteration_; }
  // The tensor of that key now, or in the next iteration; the end of tensors_ if it does not exist yet.
  Tensors::const_iterator find(std::uint64_t key, bool next_iteration) const;
  std::uint64_t slot_key(std::uint64_t op, std::span<const Touch> touches);
  void note_agreement(bool expected, std::span<const Touch> touches);
  // Whether the slot is one that ran in another iteration, where it was expected to be.
  bool enter(std::uint64_t op, std::span<const Touch> touches);
  Slot note_uses(Slot slot, Slot before, std::span<const Touch> touches);
  std::uint64_t now() const { return base_ + slots_.now(); }
  std::uint64_t next_use_of(std::uint64_t key) const;
  void see_operand(const Slots::Operand& operand);
  void see_operands(Slot slot, int depth);
  void rebuild();

  struct Scan {
    Slot slot = Slots::kNone;
    std::uint32_t operand = 0;
    bool next_iteration = false;
    std::uint32_t slots = 0;   // passed
    std::uint64_t blocks = 0;  // needed until there
    std::uint64_t absent = 0;  // of these
    std::uint64_t made_bytes = 0;
    double ns = 0;  // of the launches until there
  };
  void restart_scan();
  bool take_up(const Slots::Operand& operand);
  bool count(const PageTable& table, BlockRange blocks, double share);
  BlockRange find_likely(const PageTable& table);
  void look_ahead(const PageTable& table);

  Slots slots_;
  std::uint32_t iteration_ = 1;
  std::uint64_t base_ = 0;
  Tensors tensors_;
  std::map<std::uint64_t, std::uint64_t> made_, made_before_;  // serial by key, of this iteration and the one before
  std::map<std::uint64_t, std::vector<Slot>> users_;           // by key: the slots that used or freed it when last run
  std::map<std::uint64_t, std::uint32_t> occurrences_;         // in this iteration, by operator and lasting tensors
  std::uint64_t anchor_ = 0;                                   // key of the latest launch on a lasting tensor
  std::uint32_t after_anchor_ = 0;                             // launches since then
  std::uint32_t made_by_current_ = 0, freed_by_current_ = 0;
  std::vector<Slots::Operand> expected_;  // of the slot that runs: what it used when it ran before
  NextUses next_uses_{kNever};
  Vacancies vacancies_;
  Agreement agreeing_, agreement_;  // of this iteration, and of the one before

  std::uint64_t block_bytes_ = 1;
  std::uint32_t frames_ = 0;
  double flash_in_ns_ = 0;
  Scan scan_;  // for what to fetch: how far it has come
  bool looked_ahead_ = false;
  std::uint32_t due_slots_ = 0, urgent_slots_ = 0;  // of the scan: until there something is due, and urgent
  std::uint32_t launches_since_restart_ = 0;
  BlockMarks counted_;  // by the scan
};

}  // namespace ebb
