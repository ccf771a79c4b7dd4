// The operator observer: tells the runtime, before each operator starts, which bytes its tensor arguments have in the
// space, and when it is over. Forward, backward and optimizer alike; nothing in the model knows of it.
//
// Runs on whichever thread runs the operator. Never throws, because PyTorch would swallow it. What is not announced
// (a NumPy view) faults instead; kernels of torch.compile have kernels.h.
#pragma once

#include "ebb/runtime.h"

namespace ebb::torch_adapter {

void install_observer(Runtime& runtime);
void remove_observer();

}  // namespace ebb::torch_adapter
