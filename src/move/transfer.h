// Transfer: one block on its way to or from flash. A fixed table of them bounds what is in flight.
//
// Owned by the engine. A transfer owns its frame from start to completion; its block may be freed meanwhile, then the
// transfer is an orphan: it holds the references to its extents, and its frame goes back to the pool.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "base/index.h"

namespace ebb {

struct Transfer {
  enum class Kind : std::uint8_t { kNone, kEvict, kFetch };
  Kind kind = Kind::kNone;
  std::uint8_t attempts = 0;
  bool in_place = false;  // evict: overwrites the block's own extent
  BlockIndex block;       // none: orphan
  FrameIndex frame;
  ExtentIndex extent;  // evict: where it is written; fetch: where it is read from
  ExtentIndex copy;    // orphaned evict: what it may be just compared with; nobody writes there meanwhile
};

// Slots 0 … size-1; a slot's number is the token of its flash request.
class TransferTable {
 public:
  explicit TransferTable(std::uint32_t size) : slots_(size), most_(size) {
    free_.reserve(size);
    for (std::uint32_t i = size; i > 0; --i) free_.push_back(i - 1);
  }
  std::uint32_t size() const { return static_cast<std::uint32_t>(slots_.size()); }
  std::uint32_t in_flight() const { return static_cast<std::uint32_t>(slots_.size() - free_.size()); }
  bool full() const { return in_flight() >= most_; }
  // At most its size; those under way stay.
  void set_most(std::uint32_t most) { most_ = std::min(most, size()); }
  std::uint32_t add(const Transfer& transfer) {
    EBB_CHECK(!free_.empty());
    const std::uint32_t token = free_.back();
    free_.pop_back();
    slots_[token] = transfer;
    return token;
  }
  Transfer& operator[](std::uint32_t token) {
    EBB_CHECK_LT(token, slots_.size());
    EBB_CHECK(slots_[token].kind != Transfer::Kind::kNone);
    return slots_[token];
  }
  void remove(std::uint32_t token) {
    (*this)[token].kind = Transfer::Kind::kNone;
    free_.push_back(token);
  }
  template <typename F>
  void for_each(F&& visit) {
    for (std::uint32_t i = 0; i < size(); ++i) {
      if (slots_[i].kind != Transfer::Kind::kNone) visit(i, slots_[i]);
    }
  }

 private:
  std::vector<Transfer> slots_;
  std::vector<std::uint32_t> free_;
  std::uint32_t most_;
};

}  // namespace ebb
