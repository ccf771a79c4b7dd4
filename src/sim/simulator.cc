// See simulator.h.
#include "sim/simulator.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "rivals/policies.h"

namespace ebb {
namespace {

constexpr std::uint64_t kFixedBytes = 256 * 1024;  // what the core sets aside of any budget
constexpr std::size_t kBatch = 2;                  // as the runtime's mover
// Longer than any wait that ends: every request has at most three tries, and there are never more than some hundreds.
constexpr std::uint32_t kTurnsMax = 20'000;
// A fault is given up on when it has starved for so many turns; what is busy by chance is free long before.
constexpr std::uint32_t kStarvedTurnsMax = 64;

std::unique_ptr<Policy> policy_named(std::string_view name) {
  std::unique_ptr<Policy> policy = make_any_policy(name);
  EBB_CHECK(policy != nullptr);
  return policy;
}

Core::Config core_config(const SimDriver::Config& config) {
  return {.block_bytes = config.block_bytes,
          .budget_bytes = kFixedBytes + config.frames * config.block_bytes,
          .blocks = config.blocks,
          .extents = config.extents,
          .queue_depth = config.depth,
          .host_extents = config.host_extents};
}

}  // namespace

SimDriver::SimDriver(const Config& config)
    : seeds_(config.seed),
      faults_(config.faults),
      nth_(config.nth_fault),
      memory_(memory_config(config, seeds_.next()), faults_, nth_, log_),
      flash_(make_device(config, seeds_.next()), memory_, config.block_bytes),
      core_(core_config(config), memory_, policy_named(config.policy)),
      in_flight_(config.depth),
      budget_bytes_(core_config(config).budget_bytes),
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
  if (arrived == 0 && taken == 0) {
    flash_.wait(std::chrono::nanoseconds::max());
    arrived = flash_.poll(completions);
  }
  const std::uint64_t lost = counters_.lost;
  for (const FlashCompletion& completion : std::span(completions).first(arrived)) complete(completion);
  const bool starved = core_.engine().starved().valid();
  if (arrived > 0 || starved) pump();
  EBB_CHECK(counters_.lost == lost || memory_.failed(core_.engine().lost_block()));
  if (starved) serve_starved();
  return worked || arrived > 0 || taken > 0 || starved;
}

void SimDriver::complete(const FlashCompletion& completion) {
  const FlashRequest& request = in_flight_[completion.token];
  const std::uint64_t lost = core_.engine().counters().lost;
  core_.complete(completion);
  if (core_.engine().counters().lost == lost) return;
  ++counters_.lost;
  EBB_CHECK(request.kind == FlashRequest::Kind::kRead);
  EBB_CHECK(request.place.valid() ? device_->damaged(request.place) : device_->damaged(request.extent.value()));
}

void SimDriver::grow() {
  const std::uint32_t wanted = core_.budget().extents_wanted();
  const bool made = flash_.reserve(host_extents_ + wanted) == Status::kOk;
  core_.budget().set_extents(made ? wanted : core_.extents().capacity(), made);
  update_limit();
  pump();
}

void SimDriver::set_small_bytes(std::uint64_t bytes) {
  small_bytes_ = bytes;
  core_.budget().set_small_bytes(bytes, bytes);
  update_limit();
  pump();
}

void SimDriver::set_budget(std::uint64_t bytes) {
  budget_bytes_ = std::min(std::max(bytes, core_.budget().least_bytes()), core_.budget().most_bytes());
  core_.budget().set_bytes(budget_bytes_);
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

void SimDriver::keep(std::uint64_t offset) {
  core_.allocations().died(offset);
  kept_.push_back(offset);
  core_.engine().set_spare(true);
}

bool SimDriver::take_kept(std::uint64_t bytes, std::uint64_t& offset) {
  const std::uint64_t size = Heap::round_up(bytes);
  const auto found = std::find_if(kept_.rbegin(), kept_.rend(),
                                  [&](std::uint64_t other) { return core_.allocations().bytes_of(other) == size; });
  if (found == kept_.rend()) return false;
  offset = *found;
  kept_.erase(std::next(found).base());
  core_.allocations().born(offset);
  ++counters_.kept_taken;
  pump();
  return true;
}

// As a runtime does it: frames at once, on any thread; addresses when the program calls.
void SimDriver::release_kept() {
  for (const std::uint64_t offset : kept_) {
    core_.allocations().release(offset);
    released_.push_back(offset);
    ++counters_.kept_released;
  }
  kept_.clear();
  core_.engine().set_spare(false);
}

void SimDriver::bury_released() {
  for (const std::uint64_t offset : released_) static_cast<void>(core_.allocations().bury(offset));
  released_.clear();
}

void SimDriver::give_up_kept() {
  release_kept();
  bury_released();
  if (!core_.engine().idle()) pump();
}

Status SimDriver::allocate(std::uint64_t bytes, std::uint64_t& offset) {
  bury_released();
  Status status = core_.allocations().allocate(bytes, offset);
  if (status != Status::kOk && !kept_.empty()) {
    give_up_kept();
    status = core_.allocations().allocate(bytes, offset);
  }
  update_limit();
  if (status != Status::kOk) return status;
  pump();
  const Core::Range range{offset, bytes, 0, false};
  for (std::uint32_t turns = 0; core_.launches().pending({&range, 1}); ++turns) {
    EBB_CHECK_LT(turns, kTurnsMax);
    EBB_CHECK(turn());
  }
  return status;
}

void SimDriver::deallocate(std::uint64_t offset) {
  core_.allocations().deallocate(offset);
  // Whoever waited for a transfer that has just been called off must not be forgotten.
  if (!core_.engine().idle()) pump();
}

Status SimDriver::reserve(std::uint32_t count, BlockRange& blocks, std::uint64_t& offset) {
  give_up_kept();
  const Status status = core_.adopted().reserve(count, blocks, offset);
  update_limit();
  return status;
}

Status SimDriver::map(const FilePlace& place, std::uint64_t bytes, std::uint64_t& first) {
  give_up_kept();
  const Status status = core_.files().map(place.file, place.offset, bytes, first);
  update_limit();
  return status;
}

void SimDriver::unmap(BlockRange blocks) {
  core_.files().unmap(blocks);
  while (core_.take_unused_file() != FilePlace::kNoFile) {
  }
  if (!core_.engine().idle()) pump();
}

bool SimDriver::renew(BlockIndex block) {
  const bool done = core_.files().renew(block);
  if (!core_.engine().idle()) pump();
  return done;
}

bool SimDriver::adopt(BlockIndex block, std::span<const std::byte> content) {
  for (std::uint32_t stuck = 0; !core_.adopted().adopt(block);) {
    pump();
    stuck = turn() ? 0 : stuck + 1;
    if (stuck > kStarvedTurnsMax) return false;
  }
  memory_.adopt(core_.table()[block].frame, block, content);
  return true;
}

bool SimDriver::release(BlockIndex index, std::span<std::byte> content) {
  const Block& block = core_.table()[index];
  for (std::uint32_t turns = 0, stuck = 0; block.state != BlockState::kResident; ++turns) {
    EBB_CHECK_LT(turns, kTurnsMax);
    if (block.state == BlockState::kLost || block.state == BlockState::kUntouched) return false;
    core_.adopted().want(index);
    pump();
    if (block.state == BlockState::kResident) break;
    stuck = turn() ? 0 : stuck + 1;
    if (stuck > kStarvedTurnsMax) return false;
  }
  memory_.disown(index, content);
  core_.engine().disown(index);
  return true;
}

void SimDriver::abandon(BlockIndex index) {
  for (std::uint32_t turns = 0;; ++turns) {
    EBB_CHECK_LT(turns, kTurnsMax);
    if (memory_.present(index)) memory_.unmap(index);
    if (core_.engine().abandon(index)) return pump();
    turn();
  }
}

std::uint64_t SimDriver::announce(std::uint64_t op, std::span<const Core::Range> ranges) {
  const std::uint64_t ticket = core_.launches().announce(op, ranges);
  pump();
  for (std::uint32_t turns = 0; core_.launches().waits(ticket, ranges); ++turns) {
    EBB_CHECK_LT(turns, kTurnsMax);
    EBB_CHECK(turn());
  }
  return ticket;
}

SimDriver::Touch SimDriver::touch(BlockIndex block) {
  for (std::uint32_t faults = 0; !memory_.present(block); ++faults) {
    EBB_CHECK_LT(faults, kTurnsMax);
    touch_elsewhere(block);
    for (std::uint32_t turns = 0; memory_.awaited(block); ++turns) {
      EBB_CHECK_LT(turns, kTurnsMax);
      EBB_CHECK(turn());
    }
    if (!memory_.failed(block)) {
      // It may have left again before the program could look: while a program tries again, the mover goes on.
      if (!memory_.present(block)) turn();
      continue;
    }
    return core_.table()[block].state == BlockState::kLost ? Touch::kLost : Touch::kStarved;
  }
  return Touch::kPresent;
}

void SimDriver::touch_elsewhere(BlockIndex block) {
  // The port lets a block fail until it is attached again; a program that went on after that asks once more here.
  counters_.stale_failures += memory_.failed(block) && core_.table()[block].state != BlockState::kLost ? 1 : 0;
  ++counters_.faults;
  memory_.await(block);
  core_.fault(block);
  pump();
}

bool SimDriver::flush() {
  std::vector<BlockIndex> stay;
  core_.engine().freeze(stay);
  pump();
  for (std::uint32_t turns = 0; core_.engine().owed() > 0; ++turns) {
    EBB_CHECK_LT(turns, kTurnsMax);
    turn();
  }
  bool complete = stay.empty();
  for (const Engine::Written& written : core_.engine().written()) {
    complete = complete && written.extent.valid();
    if (written.extent.valid()) core_.release_snapshot({&written.extent, 1});
  }
  core_.engine().forget_written();
  return complete;
}

void SimDriver::settle() {
  for (std::uint32_t turns = 0; !idle() || core_.engine().starved().valid(); ++turns) {
    EBB_CHECK_LT(turns, kTurnsMax);
    turn();
  }
  EBB_CHECK(core_.engine().idle());
  EBB_CHECK_EQ(memory_.waiting(), 0u);
}

// A fault that nothing can serve: pinned pages are let go after a while, as programs do; then it fails, loudly.
void SimDriver::serve_starved() {
  if (!core_.engine().starved().valid()) {
    starved_turns_ = 0;
    return;
  }
  if (++starved_turns_ < kStarvedTurnsMax) return;
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

void SimDriver::validate() {
  core_.validate();
  const PageTable& table = core_.table();
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    const BlockIndex index(i);
    EBB_CHECK_EQ(memory_.present(index), table[index].state == BlockState::kResident);
    if (table[index].state == BlockState::kLost) EBB_CHECK(memory_.failed(index));
    if (!memory_.awaited(index)) continue;
    // Nobody is forgotten: who waits has a block on its way, or in the queue.
    EBB_CHECK(core_.engine().pending(index));
  }
}

}  // namespace ebb
