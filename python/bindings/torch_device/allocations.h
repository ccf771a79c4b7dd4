// What PyTorch's pluggable allocator calls, exported by the extension under C names; and what of it no operator has
// shown as a tensor's yet.
//
// Memory is pinned from its allocation on, because nobody announces what an operator makes while it runs, and until an
// operator has returned it, or been given it, as a tensor: from then on it is announced wherever it is used. What never
// becomes a tensor, such as cuBLAS' workspaces, stays where it is.
//
// Any thread.
#pragma once

#include <sys/types.h>

#include <vector>

#include "bindings/torch_device/managed_device.h"

extern "C" {
// Throw c10::OutOfMemoryError, torch.OutOfMemoryError in Python, or c10::Error.
__attribute__((visibility("default"))) void* ebb_device_allocate(ssize_t bytes, int device, void* stream);
__attribute__((visibility("default"))) void ebb_device_free(void* data, ssize_t bytes, int device, void* stream);
// Work in `stream` may use the memory until it is freed.
__attribute__((visibility("default"))) void ebb_device_record_stream(void* data, void* stream);
}

namespace ebb::torch_adapter {

// Whether there may be memory that no operator has shown.
bool any_unseen();
// An operator has shown that this is a tensor's. True: it had not been known.
bool see(const void* data);

}  // namespace ebb::torch_adapter
