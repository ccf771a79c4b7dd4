// Engine, second half: transfers from their start to their completion.
#include <algorithm>

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
  requests_.push_back(request);
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
  submit(transfers_.add(transfer), true, extents_.digest_of(transfer.extent));
}

// An extent for one more write. Where flash is full, the outdated or spare copies of resident blocks give way.
ExtentIndex Engine::take_extent() {
  const ExtentIndex extent = extents_.take();
  if (extent.valid() || flash_full_) return extent;
  for (std::uint32_t i = 0; i < table_.frames_max(); ++i) {
    const BlockIndex index = table_.block_of(FrameIndex(i));
    if (!index.valid() || table_[index].state != BlockState::kResident || !table_[index].extent.valid()) continue;
    drop_extent(table_[index]);
    if (const ExtentIndex freed = extents_.take(); freed.valid()) return freed;
  }
  flash_full_ = true;
  return ExtentIndex::none();
}

bool Engine::start_evict(BlockIndex index) {
  Block& block = table_[index];
  if (flash_failing() && !block.extent.valid()) return false;
  Transfer transfer;
  transfer.kind = Transfer::Kind::kEvict;
  transfer.block = index;
  transfer.frame = block.frame;
  // A copy that a snapshot shares must stay as it is; any other is overwritten in place.
  transfer.in_place = block.extent.valid() && !extents_.shared(block.extent);
  transfer.extent = transfer.in_place ? block.extent : take_extent();
  if (!transfer.extent.valid()) return false;
  if (memory_.detach(index, block.frame) != Status::kOk) {
    if (!transfer.in_place) extents_.release(transfer.extent);
    return false;
  }
  static_cast<void>(table_.become(index, BlockState::kEvicting, block.frame));
  counters_.wasted += block.prefetched ? 1 : 0;
  block.prefetched = false;
  ++evicting_;
  const bool has_expected = block.extent.valid();
  submit(transfers_.add(transfer), has_expected, has_expected ? extents_.digest_of(block.extent) : Digest{});
  return true;
}

// Somebody wants a block back whose frame is on its way out.
void Engine::rescue(BlockIndex index) {
  Block& block = table_[index];
  if (block.rescue) return;
  ++counters_.rescues;
  block.rescue = true;
  --evicting_;
  for (const FlashRequest& request : requests_) {
    if (transfers_[request.token].block != index) continue;
    cancel(request.token);
    return;
  }
}

// Takes back a request that nobody has seen yet.
void Engine::cancel(std::uint32_t token) {
  const Transfer transfer = transfers_[token];
  std::erase_if(requests_, [&](const FlashRequest& request) { return request.token == token; });
  transfers_.remove(token);
  const bool evict = transfer.kind == Transfer::Kind::kEvict;
  if (transfer.block.valid()) {
    EBB_CHECK(evict);  // a fetch is cancelled only when its block is freed
    if (!transfer.in_place) extents_.release(transfer.extent);
    table_[transfer.block].rescue = false;
    attach(transfer.block, transfer.frame);
  } else {
    // An orphan: the frame still belongs to the block until the caller lets it become untouched.
    extents_.release(transfer.extent);
    flash_full_ = false;
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
    extents_.release(transfer.extent);
    flash_full_ = false;
    transfers_.remove(token);
    --evicting_;
    frames_.put(transfer.frame);
    return;
  }
  if (completion.status != Status::kOk) return evict_failed(token, completion.status);
  Block& block = table_[transfer.block];
  if (completion.unchanged) {
    ++counters_.clean;
    if (!transfer.in_place) extents_.release(transfer.extent);
  } else {
    ++counters_.evicted;
    write_failures_ = 0;
    extents_.set_digest(transfer.extent, completion.digest);
    if (!transfer.in_place) {
      drop_extent(block);
      block.extent = transfer.extent;
    }
  }
  transfers_.remove(token);
  if (block.rescue) {
    block.rescue = false;
    attach(transfer.block, transfer.frame);
    return;
  }
  --evicting_;
  frames_.put(table_.become(transfer.block, BlockState::kOnFlash));
}

// The write failed and the frame still has the data: try another extent, then give up and keep the block in memory.
void Engine::evict_failed(std::uint32_t token, Status status) {
  Transfer& transfer = transfers_[token];
  Block& block = table_[transfer.block];
  ++counters_.io_errors;
  ++write_failures_;
  if (status == Status::kIoError) extents_.retire(transfer.extent);
  // The block's older copy, overwritten or outdated, is nothing to come back to.
  if (!transfer.in_place) extents_.release(transfer.extent);
  transfer.in_place = false;
  drop_extent(block);
  const bool again = status == Status::kIoError && ++transfer.attempts < kAttemptsMax && !block.rescue;
  transfer.extent = again ? take_extent() : ExtentIndex::none();
  if (transfer.extent.valid()) {
    submit(token, false, Digest{});
    return;
  }
  const Transfer ended = transfer;
  transfers_.remove(token);
  if (!block.rescue) --evicting_;
  block.rescue = false;
  attach(ended.block, ended.frame);
}

void Engine::fetched(std::uint32_t token, const FlashCompletion& completion) {
  Transfer& transfer = transfers_[token];
  if (!transfer.block.valid()) {
    const Transfer orphan = transfer;
    transfers_.remove(token);
    extents_.release(orphan.extent);
    flash_full_ = false;
    frames_.put(orphan.frame);
    return;
  }
  if (completion.status == Status::kOk) {
    ++counters_.fetched;
    const Transfer arrived = transfer;
    transfers_.remove(token);
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
    submit(token, true, extents_.digest_of(transfer.extent));
    return;
  }
  const Transfer ended = transfer;
  transfers_.remove(token);
  counters_.corrupt += completion.status == Status::kCorrupt ? 1 : 0;
  ++counters_.lost;
  lost_block_ = ended.block;
  frames_.put(table_.become(ended.block, BlockState::kLost));
  extents_.retire(ended.extent);
  drop_extent(table_[ended.block]);
  table_[ended.block].awaited = false;
  memory_.fail(ended.block);
}

bool Engine::flush(std::uint32_t& cursor) {
  for (; cursor < table_.frames_max(); ++cursor) {
    const BlockIndex index = table_.block_of(FrameIndex(cursor));
    if (index.valid()) let_go(index);
    if (!index.valid() || table_[index].state != BlockState::kResident || table_[index].live == 0) continue;
    if (transfers_.full() || !start_evict(index)) return false;
    --evicting_;
    table_[index].rescue = true;
  }
  return transfers_.in_flight() == 0;
}

void Engine::give_up_flush(std::uint32_t cursor) {
  for (; cursor < table_.frames_max(); ++cursor) {
    const BlockIndex index = table_.block_of(FrameIndex(cursor));
    if (!index.valid()) continue;
    let_go(index);
    if (table_[index].state == BlockState::kResident) drop_extent(table_[index]);
  }
}

}  // namespace ebb
