// Current: makes a context current in this thread for the life of an object of it, and puts back what was before.
#pragma once

#include "drivers/cuda/cuda_api.h"

namespace ebb::cuda {

class Current {
 public:
  Current(const Api& api, Context context) : api_(api) {
    if (context == nullptr) return;
    Context current = nullptr;
    if (api.context_current(&current) == kSuccess && current == context) return;
    pushed_ = api.context_push(context) == kSuccess;
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
  ~Current() {
    Context popped = nullptr;
    if (pushed_) static_cast<void>(api_.context_pop(&popped));
  }

 private:
  const Api& api_;
  bool pushed_ = false;
};

}  // namespace ebb::cuda
