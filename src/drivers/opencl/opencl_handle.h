// Handle: one reference to an object of OpenCL's, released when it goes. Moves; one owner.
#pragma once

#include <utility>

#include "drivers/opencl/opencl_api.h"

namespace ebb::opencl {

template <typename Object>
class Handle {
 public:
  using Release = cl_int(CL_API_CALL*)(Object);

  Handle() = default;
  Handle(Object object, Release release) : object_(object), release_(release) {}
  Handle(Handle&& other) noexcept : object_(std::exchange(other.object_, nullptr)), release_(other.release_) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(object_, other.object_);
    std::swap(release_, other.release_);
    return *this;
  }
  ~Handle() {
    if (object_ != nullptr) release_(object_);
  }

  Object get() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  Object object_ = nullptr;
  Release release_ = nullptr;
};

}  // namespace ebb::opencl
