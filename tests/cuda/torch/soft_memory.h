// Memory of the soft device, from the entry points of PyTorch's pluggable allocator in Ebbtide's extension. Any thread.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Storage.h>

#include <string>

namespace ebb::soft_device {

// Takes the entry points from the shared library at `path`.
void load_entry_points(const std::string& path);
c10::Allocator* allocator();
// The memory is used in this stream, too, until it is freed.
void record_stream(const c10::DataPtr& data, void* stream);
// Grows or shrinks a storage, copying what stays, as CUDA's resize does: without telling anybody.
void resize_storage(c10::StorageImpl& storage, std::size_t bytes);

}  // namespace ebb::soft_device
