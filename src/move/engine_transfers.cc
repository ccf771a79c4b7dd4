// Engine: transfers from their start to their completion.
#include "move/engine.h"

namespace ebb {

void Engine::submit(std::uint32_t token, bool has_expected, const Digest& expected) {
  const Transfer& transfer = transfers_[token];
  FlashRequest request;
  request.kind = transfer.kind == Transfer::Kind::kFetch ? FlashRequest::Kind::kRead : FlashRequest::Kind::kWrite;
  request.token = token;
  request.frame = transfer.frame;
  request.extent = transfer.extent;
  request.has_expected = has_expected;
  request.expected = expected;
  request.place = extents_.place_of(transfer.extent);
  request.copy = has_expected ? table_[transfer.block].extent : ExtentIndex::none();
  requests_.push_back(request);
}

std::uint32_t& Engine::in_lane(const Transfer& transfer) {
  const Tier below = extents_.tier_of(transfer.extent);
  const Lane lane = transfer.kind == Transfer::Kind::kFetch ? lane_in(below) : lane_out(below);
  return in_lanes_[static_cast<std::size_t>(lane)];
}

std::uint32_t Engine::begin(const Transfer& transfer) {
  ++in_lane(transfer);
  return transfers_.add(transfer);
}

Transfer Engine::end(std::uint32_t token) {
  const Transfer transfer = transfers_[token];
  --in_lane(transfer);
  transfers_.remove(token);
  return transfer;
}

std::size_t Engine::take_requests(std::span<FlashRequest> requests) {
  std::size_t taken = 0;
  for (const auto kind : {FlashRequest::Kind::kRead, FlashRequest::Kind::kWrite}) {
    std::size_t kept = 0;
    for (const FlashRequest& request : requests_) {
      if (request.kind == kind && taken < requests.size()) {
        requests[taken++] = request;
      } else {
        requests_[kept++] = request;
      }
    }
    requests_.resize(kept);
  }
  return taken;
}

void Engine::start_fetch(BlockIndex index, FrameIndex frame, bool ahead) {
  Block& block = table_[index];
  Transfer transfer;
  transfer.kind = Transfer::Kind::kFetch;
  transfer.block = index;
  transfer.frame = frame;
  transfer.extent = block.extent;
  block.prefetched = ahead;
  counters_.prefetched += ahead ? 1 : 0;
  static_cast<void>(table_.become(index, BlockState::kFetching, frame));
  const std::uint32_t token = begin(transfer);
  submit(token, extents_.has_digest(transfer.extent), extents_.digest_of(transfer.extent));
}

// An extent for one more write, in the wanted tier or else the other one.
ExtentIndex Engine::take_extent(Tier wanted) {
  const ExtentIndex extent = take_extent_in(wanted);
  return extent.valid() ? extent : take_extent_in(wanted == Tier::kHost ? Tier::kFlash : Tier::kHost);
}

// Where a tier is full, the outdated or spare copies of resident blocks give way.
ExtentIndex Engine::take_extent_in(Tier tier) {
  const ExtentIndex extent = extents_.take(tier);
  if (extent.valid() || no_room(tier)) return extent;
  std::uint32_t& cursor = cursor_[index_below(tier)];
  for (std::uint32_t i = 0; spare(tier) > 0 && i < table_.frames_max(); ++i) {
    cursor = cursor + 1 < table_.frames_max() ? cursor + 1 : 0;
    const BlockIndex index = table_.block_of(FrameIndex(cursor));
    if (!index.valid() || table_[index].state != BlockState::kResident || !table_[index].extent.valid()) continue;
    if (ExtentPool::in_file(table_[index].extent)) continue;
    if (extents_.tier_of(table_[index].extent) != tier) continue;
    drop_extent(table_[index]);
    --spare(tier);
    if (const ExtentIndex freed = extents_.take(tier); freed.valid()) return freed;
  }
  spare(tier) = 0;
  no_room(tier) = true;
  return ExtentIndex::none();
}

bool Engine::start_evict(BlockIndex index) {
  Transfer transfer;
  if (!find_extent(index, transfer)) return false;
  if (detach(index) != Status::kOk) {
    if (!transfer.in_place) release_extent(transfer.extent);
    return false;
  }
  Block& block = table_[index];
  static_cast<void>(table_.become(index, BlockState::kEvicting, block.frame));
  counters_.wasted += block.prefetched ? 1 : 0;
  block.prefetched = false;
  ++evicting_;
  write_out(transfer);
  return true;
}

void Engine::write_out(const Transfer& transfer) {
  const Block& block = table_[transfer.block];
  const bool has_expected = block.extent.valid();
  submit(begin(transfer), has_expected, has_expected ? extents_.digest_of(block.extent) : Digest{});
}

// Where a block in memory is to be written.
bool Engine::find_extent(BlockIndex index, Transfer& transfer) {
  const Block& block = table_[index];
  if (flash_failing() && !block.extent.valid()) return false;
  transfer.kind = Transfer::Kind::kEvict;
  transfer.block = index;
  transfer.frame = block.frame;
  if (block.extent.valid() && ExtentPool::in_file(block.extent)) {  // mostly unchanged, and then it needs no place
    transfer.in_place = true;
    transfer.extent = block.extent;
    return true;
  }
  // A copy that a snapshot shares must stay as it is; any other is overwritten in place, if it is in the right tier or
  // the right one has no room.
  const Tier wanted = table_.has_host() ? policy_.destination(index) : Tier::kFlash;
  const bool may_overwrite = block.extent.valid() && !extents_.shared(block.extent);
  transfer.in_place = may_overwrite && extents_.tier_of(block.extent) == wanted;
  if (!transfer.in_place) {
    transfer.extent = may_overwrite ? take_extent_in(wanted) : take_extent(wanted);
    transfer.in_place = may_overwrite && !transfer.extent.valid();
  }
  if (transfer.in_place) transfer.extent = block.extent;
  return transfer.extent.valid();
}

// An eviction that brings the block back as soon as it is written.
bool Engine::start_clean(BlockIndex index) {
  if (!start_evict(index)) return false;
  --evicting_;
  table_[index].rescue = true;
  return true;
}

// Somebody wants a block back whose frame is on its way out.
void Engine::rescue(BlockIndex index) {
  Block& block = table_[index];
  if (block.frozen && !block.hurried) {
    block.hurried = true;
    hurried_.push_back(index);
  }
  if (block.rescue) return;
  ++counters_.rescues;
  block.rescue = true;
  --evicting_;
  if (block.owed) return;
  for (const FlashRequest& request : requests_) {
    if (transfers_[request.token].block != index) continue;
    cancel(request.token);
    return;
  }
}

// Takes back a request that nobody has seen yet.
void Engine::cancel(std::uint32_t token) {
  std::erase_if(requests_, [&](const FlashRequest& request) { return request.token == token; });
  const Transfer transfer = end(token);
  const bool evict = transfer.kind == Transfer::Kind::kEvict;
  if (transfer.block.valid()) {
    EBB_CHECK(evict);  // a fetch is cancelled only when its block is freed
    if (!transfer.in_place) release_extent(transfer.extent);
    table_[transfer.block].rescue = false;
    attach(transfer.block, transfer.frame);
  } else {
    // An orphan: the frame still belongs to the block until the caller lets it become untouched.
    release_orphan(transfer);
    evicting_ -= evict ? 1 : 0;
    frames_.put(transfer.frame);
  }
}

void Engine::complete(const FlashCompletion& completion) {
  if (transfers_[completion.token].kind == Transfer::Kind::kEvict) {
    evicted(completion.token, completion);
  } else {
    fetched(completion.token, completion);
  }
}

void Engine::evicted(std::uint32_t token, const FlashCompletion& completion) {
  const Transfer transfer = transfers_[token];
  if (!transfer.block.valid()) {
    if (completion.status == Status::kIoError) extents_.retire(transfer.extent);
    release_orphan(end(token));
    --evicting_;
    frames_.put(transfer.frame);
    return;
  }
  if (completion.status != Status::kOk) return evict_failed(token, completion.status);
  if (completion.homeless) return leave_file(token);
  static_cast<void>(end(token));
  Block& block = table_[transfer.block];
  if (completion.unchanged) {
    ++counters_.clean;
    if (!transfer.in_place) release_extent(transfer.extent);
  } else {
    ++(completion.zeros ? counters_.clean : counters_.evicted);
    if (!completion.zeros) write_failures_ = 0;
    extents_.set_digest(transfer.extent, completion.digest);
    if (!transfer.in_place) {
      drop_extent(block);
      block.extent = transfer.extent;
    }
  }
  if (block.owed) pay(transfer.block, block.extent);
  if (block.live == 0) drop_extent(block);  // freed while a child was owed it
  if (block.rescue) {
    block.rescue = false;
    attach(transfer.block, transfer.frame);
    return;
  }
  --evicting_;
  frames_.put(table_.become(transfer.block, block.live == 0 ? BlockState::kUntouched : BlockState::kOnFlash));
}

// The program has written to what it had mapped: the content is no file's any more, and needs a place of its own.
void Engine::leave_file(std::uint32_t token) {
  Transfer& transfer = transfers_[token];
  Block& block = table_[transfer.block];
  ++counters_.rewritten;
  --in_lane(transfer);
  drop_extent(block);
  transfer.in_place = false;
  const bool stays = (block.rescue && !block.owed) || flash_failing();  // it need not leave any more, or cannot
  transfer.extent = stays ? ExtentIndex::none() : take_extent(Tier::kFlash);
  if (transfer.extent.valid()) {
    ++in_lane(transfer);
    return submit(token, false, Digest{});
  }
  keep_in_memory(token);
}

// The write failed and the frame still has the data: try another extent, then give up and keep the block in memory.
void Engine::evict_failed(std::uint32_t token, Status status) {
  Transfer& transfer = transfers_[token];
  Block& block = table_[transfer.block];
  ++counters_.io_errors;
  ++write_failures_;
  --in_lane(transfer);
  if (status == Status::kIoError) extents_.retire(transfer.extent);
  // The block's older copy, overwritten or outdated, is nothing to come back to.
  if (!transfer.in_place) extents_.release(transfer.extent);
  transfer.in_place = false;
  drop_extent(block);
  const bool again = status == Status::kIoError && ++transfer.attempts < kAttemptsMax && (!block.rescue || block.owed);
  transfer.extent = again ? take_extent(Tier::kFlash) : ExtentIndex::none();
  if (transfer.extent.valid()) {
    ++in_lane(transfer);
    submit(token, false, Digest{});
    return;
  }
  keep_in_memory(token);
}

void Engine::keep_in_memory(std::uint32_t token) {
  const Transfer ended = transfers_[token];
  Block& block = table_[ended.block];
  transfers_.remove(token);
  if (!block.rescue) --evicting_;
  block.rescue = false;
  if (block.owed) pay(ended.block, ExtentIndex::none());
  attach(ended.block, ended.frame);
}

void Engine::fetched(std::uint32_t token, const FlashCompletion& completion) {
  Transfer& transfer = transfers_[token];
  if (!transfer.block.valid()) {
    const Transfer orphan = end(token);
    release_orphan(orphan);
    frames_.put(orphan.frame);
    return;
  }
  if (completion.status == Status::kOk) {
    counters_.fetched += completion.zeros ? 0 : 1;
    const Transfer arrived = end(token);
    const bool may_differ = !extents_.has_digest(arrived.extent) || ExtentPool::in_file(arrived.extent);
    if (may_differ) extents_.set_digest(arrived.extent, completion.digest);
    const bool held = table_[arrived.block].held && !table_[arrived.block].awaited;
    table_[arrived.block].held = false;
    if (held) {
      static_cast<void>(table_.become(arrived.block, BlockState::kReady, arrived.frame));
    } else {
      attach(arrived.block, arrived.frame);
    }
    return;
  }
  ++counters_.io_errors;
  if (++transfer.attempts < kAttemptsMax) {
    submit(token, extents_.has_digest(transfer.extent), extents_.digest_of(transfer.extent));
    return;
  }
  const Transfer ended = end(token);
  counters_.corrupt += completion.status == Status::kCorrupt ? 1 : 0;
  ++counters_.lost;
  lost_block_ = ended.block;
  lost_place_ = extents_.place_of(ended.extent);
  frames_.put(table_.become(ended.block, BlockState::kLost));
  extents_.retire(ended.extent);
  drop_extent(table_[ended.block]);
  table_[ended.block].awaited = false;
  if (unread_.size() == unread_.capacity()) fail_unread();
  unread_.push_back(ended.block);
}

void Engine::fail_unread() {
  for (const BlockIndex index : unread_) {
    if (table_[index].state == BlockState::kLost) memory_.fail(index);
  }
  unread_.clear();
}

}  // namespace ebb
