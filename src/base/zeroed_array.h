// ZeroedArray: a large array whose elements begin as bytes of zero, and take memory only where they are written to.
// Move-only owner; as many threads as its owner allows.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <type_traits>

namespace ebb {

template <typename T>
class ZeroedArray {
  static_assert(std::is_trivially_destructible_v<T>);

 public:
  ZeroedArray() = default;
  explicit ZeroedArray(std::size_t size) : data_(static_cast<T*>(std::calloc(size, sizeof(T)))), size_(size) {
    if (data_ == nullptr) throw std::bad_alloc();
  }

  std::size_t size() const { return size_; }
  T& operator[](std::size_t index) { return data_[index]; }
  const T& operator[](std::size_t index) const { return data_[index]; }

 private:
  struct Free {
    void operator()(T* data) const { std::free(data); }
  };

  std::unique_ptr<T[], Free> data_;
  std::size_t size_ = 0;
};

}  // namespace ebb
