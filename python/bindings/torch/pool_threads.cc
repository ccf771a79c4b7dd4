// See pool_threads.h.
#include "bindings/torch/pool_threads.h"

#include <ATen/Parallel.h>
#include <ATen/TensorIterator.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <vector>

namespace ebb::torch_adapter {
namespace {

// An element for each of them: PyTorch's own loops are what runs on its pool, whichever that is.
void call_in_team(int threads, Runtime& runtime) {
  std::vector<float> memory(static_cast<std::size_t>(threads));
  const at::Tensor elements = at::from_blob(memory.data(), {threads}, at::kFloat);
  at::TensorIterator loop = at::TensorIteratorConfig()
                                .check_all_same_dtype(false)
                                .resize_outputs(false)
                                .declare_static_shape(elements.sizes())
                                .add_output(elements)
                                .build();
  loop.for_each([&](char**, const std::int64_t*, std::int64_t) { runtime.prepare_thread(); }, 1);
}

}  // namespace

void prepare_pool_threads(Runtime& runtime) noexcept {
  static thread_local int prepared = 0;
  const int threads = at::get_num_threads();
  if (threads <= prepared || at::in_parallel_region()) return;
  prepared = threads;
  if (!runtime.prepare_thread()) return;
  try {
    call_in_team(threads, runtime);
  } catch (...) {
    return;  // they are as they were
  }
}

}  // namespace ebb::torch_adapter
