// Who waits: an operator that has to wait is asked for the module that it runs in, while what it needs is on its way.
// The program is not changed for it, and an operator that does not wait costs nothing: the thread's own Python stack
// tells of a forward pass, and the autograd node that runs tells of a backward pass (ebbtide/torch/waiting.py).
//
// Called by the thread that waits, which takes the GIL for it; threads that Python does not know are not asked. For
// PyTorch's profilers the wait is a range, "ebbtide::wait".
#pragma once

#include <ATen/record_function.h>
#include <pybind11/pybind11.h>

#include <optional>

#include "ebb/runtime.h"

namespace ebb::torch_adapter {

void observe_waits(Runtime& runtime);

// The announcement of an operator on this thread: a range from when it begins to wait, if it does, to the end of this.
class AnnouncedWait {
 public:
  AnnouncedWait() noexcept;
  ~AnnouncedWait();
  AnnouncedWait(const AnnouncedWait&) = delete;
  AnnouncedWait& operator=(const AnnouncedWait&) = delete;

  void begin() noexcept;

 private:
  AnnouncedWait* const outer_;
  std::optional<at::RecordFunction> range_;
};

// `ask` is called without arguments and returns the name of a module, or None; None in its place: nobody asks any more.
void set_wait_asker(const pybind11::object& ask);

// What modules and optimizers hold now: two lists of (tensor, name). Gradients are found by their parameters.
void describe_tensors(Runtime& runtime, const pybind11::list& parameters, const pybind11::list& states);

// The accounts, as ebbtide.stats() has them.
pybind11::dict waits_of(const Runtime& runtime);

}  // namespace ebb::torch_adapter
