// BoundedCopy: one copy between a device's buffer and memory of the process that may make us wait for somebody else's
// fault handler: on a thread of its own, which is left behind when that takes too long. Any thread; allocates.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace ebb {

// Bytes done, or -1 with `error`; ETIMEDOUT: nobody served it in time. Then `own` is not touched any more.
long bounded_copy(std::byte* own, std::uintptr_t address, std::size_t bytes, bool write,
                  std::chrono::milliseconds timeout, int& error);

}  // namespace ebb
