// WantQueue: blocks that somebody waits for, first come first served, linked through the page table: no allocation, and
// no limit other than the number of blocks. A block is in at most one queue, whose number (from 1) it carries.
#pragma once

#include <cstdint>

#include "base/index.h"
#include "space/page_table.h"

namespace ebb {

class WantQueue {
 public:
  WantQueue(PageTable& table, std::uint8_t number) : table_(table), number_(number) {}
  bool empty() const { return !head_.valid(); }
  std::uint32_t size() const { return size_; }
  BlockIndex front() const { return head_; }
  bool holds(BlockIndex index) const { return table_[index].queue == number_; }

  void push(BlockIndex index) {
    Block& block = table_[index];
    EBB_CHECK_EQ(block.queue, 0);
    block.queue = number_;
    block.queue_next = BlockIndex::none();
    block.queue_previous = tail_;
    (tail_.valid() ? table_[tail_].queue_next : head_) = index;
    tail_ = index;
    ++size_;
  }
  void remove(BlockIndex index) {
    Block& block = table_[index];
    EBB_CHECK_EQ(block.queue, number_);
    (block.queue_previous.valid() ? table_[block.queue_previous].queue_next : head_) = block.queue_next;
    (block.queue_next.valid() ? table_[block.queue_next].queue_previous : tail_) = block.queue_previous;
    block.queue = 0;
    block.queue_next = block.queue_previous = BlockIndex::none();
    --size_;
  }

 private:
  PageTable& table_;
  BlockIndex head_;
  BlockIndex tail_;
  std::uint32_t size_ = 0;
  std::uint8_t number_;
};

}  // namespace ebb
