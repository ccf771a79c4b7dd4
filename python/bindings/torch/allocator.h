// ManagedAllocator: the c10 allocator of the `cpu` device while Ebbtide is enabled: storage comes from the runtime.
//
// One process-wide instance, never destroyed: PyTorch frees tensors until the very end of the process. Any thread.
#pragma once

#include <c10/core/Allocator.h>

#include "ebb/runtime.h"

namespace ebb::torch_adapter {

// Puts the allocator in place of the one there is, for tensors from now on.
void install_allocator(Runtime& runtime);
// Puts the former one back; tensors that exist keep their storage.
void remove_allocator();

}  // namespace ebb::torch_adapter
