// See sim_memory.h.
#include "sim/sim_memory.h"

#include <algorithm>

#include "base/check.h"

namespace ebb {
namespace {

constexpr std::uint32_t kFramesMin = 8;  // the core's
constexpr std::byte kGone{0xdd};         // memory that was given back

}  // namespace

SimMemory::SimMemory(const Config& config, const FaultPlan& plan, NthFault& nth, EventLog& log)
    : config_(config),
      plan_(plan),
      nth_(nth),
      log_(log),
      rng_(config.seed),
      bytes_(config.block_bytes * config.frames, kGone),
      frames_(config.frames),
      blocks_(config.blocks),
      frames_limit_(config.frames) {}

std::span<std::byte> SimMemory::buffer(FrameIndex frame) {
  return std::span(bytes_).subspan(frame.value() * config_.block_bytes, config_.block_bytes);
}

Status SimMemory::create(FrameIndex frame) {
  Frame& record = frames_.at(frame.value());
  EBB_CHECK(!record.exists);
  EBB_CHECK_LT(created_, frames_limit_);
  const bool few = created_ >= plan_.frames_available;
  const bool refused = nth_.fires() || few || plan_[Fault::kCreateError].fires(rng_);
  log_.note(EventLog::Kind::kCreate, frame.value(), refused);
  refusing_ = refused;
  if (refused) {
    ++(few ? counters_.frames_short : counters_.injected[Fault::kCreateError]);
    // The pool goes on with what it has, or the least that it needs, until it is told a limit again.
    if (created_ > 0) frames_limit_ = std::max(created_, std::min(frames_limit_, kFramesMin));
    return Status::kNoMemory;
  }
  record = Frame{};
  record.exists = true;
  ++created_;
  ++counters_.created;
  std::fill(buffer(frame).begin(), buffer(frame).end(), static_cast<std::byte>(rng_.next()));
  return Status::kOk;
}

void SimMemory::destroy(FrameIndex frame) {
  log_.note(EventLog::Kind::kDestroy, frame.value());
  Frame& record = frames_.at(frame.value());
  EBB_CHECK(record.exists);
  EBB_CHECK(!record.block.valid());
  EBB_CHECK_EQ(record.transfers, 0u);
  record.exists = false;
  --created_;
  ++counters_.destroyed;
  std::fill(buffer(frame).begin(), buffer(frame).end(), kGone);
}

void SimMemory::attach(FrameIndex frame, BlockIndex index) {
  log_.note(EventLog::Kind::kAttach, frame.value(), index.value());
  Frame& record = frames_.at(frame.value());
  SimBlock& block = blocks_.at(index.value());
  EBB_CHECK(record.exists);
  EBB_CHECK(!record.block.valid());
  EBB_CHECK_EQ(record.transfers, 0u);
  EBB_CHECK(!block.frame.valid());
  record.block = index;
  block.frame = frame;
  block.failed = false;
  ++counters_.attached;
  end_wait(block);
}

Status SimMemory::detach(BlockIndex index, FrameIndex frame) {
  Frame& record = frames_.at(frame.value());
  SimBlock& block = blocks_.at(index.value());
  EBB_CHECK(record.exists);
  EBB_CHECK_EQ(block.frame, frame);
  EBB_CHECK_EQ(record.block, index);
  const bool by_chance = plan_[Fault::kBusy].fires(rng_);
  const bool busy = block.pinned || by_chance;
  counters_.injected[Fault::kBusy] += by_chance ? 1 : 0;
  log_.note(EventLog::Kind::kDetach, index.value(), frame.value(), busy);
  if (busy) {
    ++counters_.busy;
    return Status::kBusy;
  }
  record.block = BlockIndex::none();
  block.frame = FrameIndex::none();
  ++counters_.detached;
  return Status::kOk;
}

void SimMemory::wake(BlockIndex index) {
  log_.note(EventLog::Kind::kWake, index.value());
  ++counters_.woken;
  end_wait(blocks_.at(index.value()));
}

void SimMemory::fail(BlockIndex index) {
  log_.note(EventLog::Kind::kFail, index.value());
  SimBlock& block = blocks_.at(index.value());
  EBB_CHECK(!block.frame.valid());
  block.failed = true;
  ++counters_.failed;
  end_wait(block);
}

void SimMemory::forget_failure(BlockIndex index) { blocks_.at(index.value()).failed = false; }

std::span<std::byte> SimMemory::home(FrameIndex frame) {
  const Frame& record = frames_.at(frame.value());
  EBB_CHECK(record.exists);
  EBB_CHECK(!record.block.valid());
  return buffer(frame);
}

std::span<std::byte> SimMemory::bytes(BlockIndex index) {
  const SimBlock& block = blocks_.at(index.value());
  EBB_CHECK(block.frame.valid());
  EBB_CHECK_EQ(frames_[block.frame.value()].block, index);
  return buffer(block.frame);
}

void SimMemory::await(BlockIndex index) {
  EBB_CHECK(!blocks_.at(index.value()).frame.valid());
  begin_wait(blocks_[index.value()]);
}

void SimMemory::await_late(BlockIndex index) {
  EBB_CHECK(blocks_.at(index.value()).frame.valid());
  begin_wait(blocks_[index.value()]);
}

void SimMemory::begin_wait(SimBlock& block) {
  if (!block.awaited) ++waiting_;
  block.awaited = true;
}

void SimMemory::end_wait(SimBlock& block) {
  if (block.awaited) --waiting_;
  block.awaited = false;
}

void SimMemory::adopt(FrameIndex frame, BlockIndex index, std::span<const std::byte> content) {
  log_.note(EventLog::Kind::kCreate, frame.value(), index.value());
  Frame& record = frames_.at(frame.value());
  SimBlock& block = blocks_.at(index.value());
  EBB_CHECK(!record.exists);
  EBB_CHECK(!block.frame.valid());
  EBB_CHECK_LT(created_, frames_limit_);
  record = Frame{true, index, 0};
  block.frame = frame;
  block.failed = false;
  ++created_;
  std::copy(content.begin(), content.end(), buffer(frame).begin());
}

void SimMemory::disown(BlockIndex index, std::span<std::byte> content) {
  const FrameIndex frame = blocks_.at(index.value()).frame;
  std::copy_n(bytes(index).begin(), content.size(), content.begin());
  unmap(index);
  frames_[frame.value()].exists = false;
  --created_;
}

void SimMemory::unmap(BlockIndex index) {
  SimBlock& block = blocks_.at(index.value());
  log_.note(EventLog::Kind::kDestroy, block.frame.value(), index.value());
  std::fill(buffer(block.frame).begin(), buffer(block.frame).end(), kGone);
  frames_.at(block.frame.value()).block = BlockIndex::none();
  block.frame = FrameIndex::none();
  end_wait(block);
}

void SimMemory::pin(BlockIndex index) {
  SimBlock& block = blocks_.at(index.value());
  EBB_CHECK(block.frame.valid());
  if (!block.pinned) ++pinned_;
  block.pinned = true;
}

void SimMemory::unpin_all() {
  for (SimBlock& block : blocks_) block.pinned = false;
  pinned_ = 0;
}

SimMemory::Frame* SimMemory::frame_of(std::span<const std::byte> bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
  const std::uintptr_t offset = begin - reinterpret_cast<std::uintptr_t>(bytes_.data());
  if (offset >= bytes_.size()) return nullptr;
  EBB_CHECK_EQ(bytes.size(), config_.block_bytes);
  EBB_CHECK_EQ(offset % config_.block_bytes, 0u);
  return &frames_.at(offset / config_.block_bytes);
}

void SimMemory::begin_transfer(std::span<const std::byte> bytes) {
  Frame* const frame = frame_of(bytes);
  if (frame == nullptr) return;
  EBB_CHECK(frame->exists);
  EBB_CHECK(!frame->block.valid());
  EBB_CHECK_EQ(frame->transfers, 0u);
  ++frame->transfers;
}

void SimMemory::end_transfer(std::span<const std::byte> bytes) {
  Frame* const frame = frame_of(bytes);
  if (frame == nullptr) return;
  EBB_CHECK_EQ(frame->transfers, 1u);
  --frame->transfers;
}

}  // namespace ebb
