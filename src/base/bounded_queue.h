// BoundedQueue: first in, first out, of a fixed size: it allocates when it is made and never again.
#pragma once

#include <cstddef>
#include <vector>

#include "base/check.h"

namespace ebb {

template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(std::size_t capacity) : items_(capacity) {}

  bool empty() const { return count_ == 0; }
  std::size_t size() const { return count_; }
  const T& front() const {
    EBB_CHECK_LT(0u, count_);
    return items_[first_];
  }
  void push(const T& item) {
    EBB_CHECK_LT(count_, items_.size());
    items_[(first_ + count_++) % items_.size()] = item;
  }
  T pop() {
    const T item = front();
    first_ = (first_ + 1) % items_.size();
    --count_;
    return item;
  }

 private:
  std::vector<T> items_;
  std::size_t first_ = 0;
  std::size_t count_ = 0;
};

}  // namespace ebb
