// SimDriver: the mover's part, and what is checked. What the program calls is in simulator_calls.cc.
#include "sim/simulator.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "rivals/policies.h"

namespace ebb {
namespace {

constexpr std::uint64_t kFixedBytes = 256 * 1024;  // what the core sets aside of any budget
constexpr std::size_t kBatch = 2;                  // as the runtime's mover
constexpr std::uint32_t kFaultedMax = 4;           // blocks that stay because they have just been waited for
constexpr std::uint32_t kStarvedTurnsCertain = 3;  // without chance one turn is as the other

std::unique_ptr<Policy> policy_named(std::string_view name) {
  std::unique_ptr<Policy> policy = make_any_policy(name);
  EBB_CHECK(policy != nullptr);
  return policy;
}

Core::Config core_config(const SimDriver::Config& config) {
  return {.block_bytes = config.block_bytes,
          .budget_bytes = kFixedBytes + config.frames * config.block_bytes,
          .blocks = config.blocks,
          .blocks_beyond = config.blocks_beyond,
          .extents = config.extents,
          .frames_ahead = config.frames_ahead,
          .queue_depth = config.depth,
          .host_extents = config.host_extents};
}

// One run in four compares what is unchanged with its copy.
CheckedFlash::Proof proof_of(const SimDriver::Config& config) {
  return config.seed % 4 == 0 ? CheckedFlash::Proof::kContent : CheckedFlash::Proof::kDigest;
}

}  // namespace

SimDriver::SimDriver(const Config& config)
    : seeds_(config.seed),
      faults_(config.faults),
      nth_(config.nth_fault),
      memory_(memory_config(config, seeds_.next()), faults_, nth_, log_),
      flash_(make_device(config, seeds_.next()), memory_, config.block_bytes, nullptr, proof_of(config)),
      core_(core_config(config), memory_, policy_named(config.policy)),
      in_flight_(config.depth),
      budget_bytes_(core_config(config).budget_bytes),
      extents_(config.extents),
      host_extents_(config.host_extents) {
  if (host_extents_ > 0) EBB_CHECK(flash_.reserve(host_extents_) == Status::kOk);
}

SimMemory::Config SimDriver::memory_config(const Config& config, std::uint64_t seed) {
  return {config.block_bytes, core_config(config).frames(), config.blocks, seed};
}

std::unique_ptr<SimFlash> SimDriver::make_device(const Config& config, std::uint64_t seed) {
  SimFlash::Config device;
  device.block_bytes = config.block_bytes;
  device.depth = config.depth;
  device.seed = seed;
  auto made = std::make_unique<SimFlash>(device, faults_, nth_, memory_, clock_, log_);
  device_ = made.get();
  return made;
}

bool SimDriver::idle() const {
  return core_.engine().in_flight() == 0 && !core_.engine().has_requests() && core_.budget().extents_wanted() == 0;
}

void SimDriver::reseed(std::uint64_t seed) {
  Rng rng(seed);
  memory_.reseed(rng.next());
  device_->reseed(rng.next());
}

bool SimDriver::turn() {
  ++counters_.turns;
  bool worked = core_.budget().extents_wanted() > 0;
  if (worked) grow();
  std::array<FlashRequest, kBatch> requests;
  std::array<FlashCompletion, kBatch> completions;
  const std::size_t taken = core_.take_requests(requests);
  for (const FlashRequest& request : std::span(requests).first(taken)) in_flight_[request.token] = request;
  flash_.submit(std::span(requests).first(taken));
  std::size_t arrived = flash_.poll(completions);
  // What arrives may only lead to the next transfer: a copy that differs, to a write.
  for (bool first = true; arrived == 0 && taken == 0 && (first || device_->in_flight() > 0); first = false) {
    flash_.wait(std::chrono::nanoseconds::max());
    arrived = flash_.poll(completions);
  }
  const std::uint64_t lost = counters_.lost;
  for (const FlashCompletion& completion : std::span(completions).first(arrived)) complete(completion);
  const bool starved = core_.engine().starved().valid();
  if (arrived > 0 || starved) pump();
  if (counters_.lost > lost) check_told(core_.engine().lost_block());
  if (starved) serve_starved();
  return worked || arrived > 0 || taken > 0 || starved;
}

// A lost block fails whoever touches it. It is none any more where the program had freed it and has just given it back.
void SimDriver::check_told(BlockIndex index) const {
  EBB_CHECK(memory_.failed(index) || core_.table()[index].state != BlockState::kLost);
}

void SimDriver::complete(const FlashCompletion& completion) {
  const FlashRequest& request = in_flight_[completion.token];
  const std::uint64_t lost = core_.engine().counters().lost;
  core_.complete(completion);
  if (core_.engine().counters().lost == lost) return;
  ++counters_.lost;
  EBB_CHECK(request.kind == FlashRequest::Kind::kRead);
  const std::optional<Fault> cause =
      request.place.valid() ? device_->damage(request.place) : device_->damage(request.extent.value());
  EBB_CHECK(cause.has_value());
  ++counters_.lost_by[*cause];
}

void SimDriver::grow() {
  const std::uint32_t wanted = core_.budget().extents_wanted();
  EBB_CHECK_LE(wanted, extents_);
  const std::uint32_t now = core_.extents().capacity();
  const std::uint32_t grown = Budget::grown(
      now, wanted, [&](std::uint32_t count) { return flash_.reserve(host_extents_ + count) == Status::kOk; });
  core_.budget().set_extents(grown, grown > now);
  update_limit();
  pump();
}

// The core may have divided its budget anew: frames get what small allocations and tables leave, and never more.
void SimDriver::update_limit() {
  const std::uint64_t bytes = core_.block_bytes();
  const std::uint64_t other = core_.budget().resident_bytes() - memory_.created() * bytes;
  const std::uint64_t most = budget_bytes_ > other ? (budget_bytes_ - other) / bytes : 0;
  EBB_CHECK(core_.budget().frames_limit() <= most || core_.budget().frames_limit() <= Core::kFramesMin);
  memory_.set_frames_limit(core_.budget().frames_limit());
}

void SimDriver::pump() {
  core_.pump();
  if (!core_.engine().short_of_frames()) return;
  release_kept();
  core_.pump();
}

void SimDriver::settle() {
  for (Patience patience(*this); !idle() || core_.engine().starved().valid();) {
    patience.spend();
    turn();
  }
  EBB_CHECK(core_.engine().idle());
  EBB_CHECK_EQ(memory_.waiting(), 0u);
}

// A fault that nothing can serve: pinned pages are let go after a while, as programs do; then it fails, loudly.
void SimDriver::serve_starved() {
  // Nor does a runtime give up while help comes.
  if (!core_.engine().starved().valid() || core_.budget().making_frame_ahead()) {
    starved_turns_ = 0;
    return;
  }
  const bool chance = faults_[Fault::kBusy].numerator + faults_[Fault::kCreateError].numerator > 0;
  if (++starved_turns_ < (chance ? kStarvedTurnsMax : kStarvedTurnsCertain)) return;
  starved_turns_ = 0;
  check_starved();
  if (memory_.pinned() > 0) {
    memory_.unpin_all();
  } else {
    const BlockIndex block = core_.engine().starved();
    ++counters_.starved;
    core_.engine().fail_starved();
    EBB_CHECK(memory_.failed(block));
  }
  pump();
}

bool SimDriver::can_leave(BlockIndex index) const {
  const Block& block = core_.table()[index];
  if (block.state == BlockState::kReady) return true;
  if (block.state != BlockState::kResident || memory_.pinned(index)) return false;
  if (block.live == 0) return true;
  const ExtentPool& extents = core_.extents();
  if (block.extent.valid() && (ExtentPool::in_file(block.extent) || !extents.shared(block.extent))) return true;
  if (core_.engine().flash_failing() && !block.extent.valid()) return false;
  if (extents.free() > 0) return true;
  for (std::uint32_t i = 0; i < core_.table().frames_max(); ++i) {
    const BlockIndex other = core_.table().block_of(FrameIndex(i));
    if (!other.valid() || core_.table()[other].state != BlockState::kResident) continue;
    const ExtentIndex spare = core_.table()[other].extent;
    if (spare.valid() && !extents.shared(spare)) return true;
  }
  return false;
}

void SimDriver::check_starved() const {
  const PageTable& table = core_.table();
  for (std::uint32_t i = 0; i < table.frames_max(); ++i) {
    const BlockIndex index = table.block_of(FrameIndex(i));
    if (index.valid()) EBB_CHECK(!can_leave(index));
  }
  const bool over = memory_.created() > memory_.frames_limit();
  // No frame lies idle.
  if (!over) EBB_CHECK_EQ(memory_.created(), table.count(BlockState::kResident) + table.count(BlockState::kReady));
  if (!memory_.refusing()) EBB_CHECK_LE(memory_.frames_limit(), memory_.created());
}

void SimDriver::check_within_budget() {
  if (faults_[Fault::kBusy].numerator > 0) return;  // perhaps everything has been busy by chance
  // A look at victims stops after some that cannot leave, and the next one goes on behind them.
  for (std::uint32_t i = 0; i <= core_.table().frames_max() / 8; ++i) {
    pump();
    settle();
  }
  if (memory_.created() <= memory_.frames_limit()) return;
  std::uint32_t can = 0;
  for (std::uint32_t i = 0; i < core_.table().frames_max(); ++i) {
    const BlockIndex index = core_.table().block_of(FrameIndex(i));
    // What is held back leaves only when somebody faults for its room.
    const bool held = index.valid() && core_.table()[index].state == BlockState::kReady;
    can += index.valid() && !held && can_leave(index) ? 1 : 0;
  }
  EBB_CHECK_LE(can, kFaultedMax);
}

void SimDriver::Patience::spend() {
  EBB_CHECK_LT(++turns_, kTurnsMax);
  const std::uint64_t answers_ns = std::max(since_ns_, driver_.device_->stalled_until_ns());
  EBB_CHECK_LE(driver_.clock_.now_ns(), answers_ns + kWaitMaxNs);
}

void SimDriver::validate() {
  core_.validate();
  const PageTable& table = core_.table();
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    const BlockIndex index(i);
    EBB_CHECK_EQ(memory_.present(index), table[index].state == BlockState::kResident);
    check_told(index);
    if (!memory_.awaited(index)) continue;
    // Nobody is forgotten: who waits has a block on its way, or in the queue.
    EBB_CHECK(core_.engine().pending(index));
  }
}

}  // namespace ebb
