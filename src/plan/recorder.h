// Recorder: a Policy around another one that listens in and makes a Trace: what `ebb run --record` writes. Either of
// one iteration, for which it keeps the last two whole ones, or of a sequence of them, after the first two whole ones.
//
// One iteration that is repeated may begin anywhere. The program's own mark, the optimizer's step, is a bad place: the
// gradients live across it. It begins where the fewest bytes live across that are not there for ever. A sequence has
// its marks where the program made them, for that is what a policy is told.
//
// Owned by the core, in the place of the policy that it wraps.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "plan/policy.h"
#include "plan/recording.h"
#include "plan/trace.h"
#include "plan/trace_draft.h"

namespace ebb {

class Recorder final : public Policy {
 public:
  // `iterations`: how many to record; 1: one, as a loop.
  explicit Recorder(std::unique_ptr<Policy> policy, std::uint32_t iterations = 1)
      : policy_(std::move(policy)), iterations_(iterations) {}

  std::string_view name() const override { return policy_->name(); }
  bool listens() const override { return policy_->listens(); }
  void set_pace(const Pace& pace) override { policy_->set_pace(pace); }
  void budget(std::uint64_t block_bytes, std::uint32_t frames) override { policy_->budget(block_bytes, frames); }
  void allocated(std::uint64_t allocation, std::uint64_t bytes, BlockRange blocks) override;
  void used_at_random(std::uint64_t op, BlockRange blocks) override { policy_->used_at_random(op, blocks); }
  void touched(BlockIndex block, std::uint64_t stamp) override { policy_->touched(block, stamp); }
  void mapped(std::uint64_t allocation, std::uint64_t bytes, BlockRange blocks) override;
  void freed(std::uint64_t allocation) override;
  void launched(std::uint64_t op, std::span<const Touch> touches) override;
  void ran(std::uint64_t ns) override;
  void step() override;
  void foretell(const Recording& iteration) override { policy_->foretell(iteration); }
  const Recording* latest() const override { return policy_->latest(); }
  std::uint64_t keep(BlockIndex index, const Block& block) const override { return policy_->keep(index, block); }
  Tier destination(BlockIndex block) const override { return policy_->destination(block); }
  Ahead ahead(const PageTable& table, Tier below) override { return policy_->ahead(table, below); }
  BlockIndex behind(const PageTable& table, Tier below, std::uint64_t pinned_from) override {
    return policy_->behind(table, below, pinned_from);
  }
  void arrived(BlockIndex block) override { policy_->arrived(block); }
  std::uint64_t deviations() const override { return policy_->deviations(); }
  std::uint64_t guided() const override { return policy_->guided(); }

  // Names for operators in the trace.
  void name_op(std::uint64_t op, std::string name) { names_.insert_or_assign(op, std::move(name)); }
  bool names(std::uint64_t op) const { return names_.contains(op); }
  // Iterations that were found until now were none of the program's own.
  void steps_are_told();
  // Whether there is a trace to write.
  bool has_trace() const { return iterations_ == 1 ? whole_ >= kWholeBefore : sequence_.iterations() > 0; }
  // Whether to write it now, after a step: now and then, so that a program that is killed, or never ends, leaves one.
  bool due() const;
  // Whether what there is will not become more.
  bool is_over() const { return iterations_ > 1 && (sequence_.iterations() >= iterations_ || sequence_.full()); }
  // The program is not running.
  Trace trace() const;

 private:
  static constexpr std::uint32_t kWholeBefore = 2;  // iterations that pass before one is like those that follow
  static constexpr std::uint64_t kFirst = 4;        // steps until one iteration is written first

  struct Live {
    BlockRange blocks;
    std::uint64_t bytes = 0;
  };
  bool takes_sequence() const { return iterations_ > 1 && whole_ >= kWholeBefore && !is_over(); }

  std::unique_ptr<Policy> policy_;
  const std::uint32_t iterations_;
  Recording before_, last_, current_;
  TraceDraft sequence_;
  bool told_ = false;
  bool grew_ = false;  // the sequence, by the latest step
  std::uint32_t whole_ = 0;
  std::uint64_t steps_ = 0;
  std::uint64_t next_serial_ = 1;
  std::vector<BlockIndex> first_blocks_;  // scratch
  std::map<std::uint64_t, Live> live_;
  TraceDraft::Names names_;
};

}  // namespace ebb
