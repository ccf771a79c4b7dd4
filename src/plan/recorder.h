// Recorder: a Policy around another one that listens in and keeps the last two whole iterations, from which it makes a
// Trace: what `ebb run --record` writes.
//
// An iteration may begin anywhere. The program's own mark, the optimizer's step, is a bad place: the gradients live
// across it. trace() begins where the fewest bytes live across that are not there for ever.
//
// Owned by the core, in the place of the policy that it wraps.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "plan/policy.h"
#include "plan/recording.h"
#include "plan/trace.h"

namespace ebb {

class Recorder final : public Policy {
 public:
  explicit Recorder(std::unique_ptr<Policy> policy) : policy_(std::move(policy)) {}

  std::string_view name() const override { return policy_->name(); }
  bool listens() const override { return policy_->listens(); }
  void set_pace(const Pace& pace) override { policy_->set_pace(pace); }
  void budget(std::uint64_t block_bytes, std::uint32_t frames) override { policy_->budget(block_bytes, frames); }
  void allocated(std::uint64_t allocation, std::uint64_t bytes, BlockRange blocks) override;
  void used_at_random(BlockRange blocks) override { policy_->used_at_random(blocks); }
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
  // Whether two whole iterations have passed.
  bool has_trace() const { return whole_ >= 2; }
  // The iteration before the last one, or the part of it and the last that makes one; the program is not running.
  Trace trace() const;

 private:
  std::unique_ptr<Policy> policy_;
  Recording before_, last_, current_;
  std::uint32_t whole_ = 0;
  std::uint64_t next_serial_ = 1;
  std::vector<BlockIndex> first_blocks_;  // scratch
  std::map<std::uint64_t, BlockRange> live_;
  std::map<std::uint64_t, std::string> names_;
};

}  // namespace ebb
