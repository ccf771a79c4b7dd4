// PageArray: a fixed array in a mapping of its own, zeroed, owned by one object. What the mirror works with while a
// fault is served lies here and not on the heap: the heap is memory that may be migrated away.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "ebb/status.h"

namespace ebb {

template <typename T>
class PageArray {
 public:
  PageArray() = default;
  PageArray(PageArray&& other) noexcept { *this = std::move(other); }
  PageArray& operator=(PageArray&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~PageArray() {
    if (data_ != nullptr) ::munmap(data_, size_ * sizeof(T));
  }

  static Status make(std::size_t size, PageArray& array) {
    PageArray made;
    void* const data =
        ::mmap(nullptr, size * sizeof(T), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED) return Status::kNoMemory;
    made.data_ = static_cast<T*>(data);
    made.size_ = size;
    array = std::move(made);
    return Status::kOk;
  }

  T& operator[](std::size_t index) { return data_[index]; }
  const T& operator[](std::size_t index) const { return data_[index]; }
  std::size_t size() const { return size_; }
  T* data() const { return data_; }
  bool overlaps(std::uintptr_t begin, std::uintptr_t end) const {
    const auto own = reinterpret_cast<std::uintptr_t>(data_);
    return begin < own + size_ * sizeof(T) && own < end;
  }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace ebb
