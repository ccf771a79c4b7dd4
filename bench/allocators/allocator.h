// Allocator: those that are compared, behind the same two calls. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "ebb/runtime.h"

namespace ebb::bench {

class Allocator {
 public:
  virtual ~Allocator() = default;
  // Aligned to 64 bytes, as PyTorch asks for. Throws when there is no memory.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void deallocate(void* data) = 0;
  virtual Stats stats() const { return {}; }
};

// `name`: malloc, ebb, or the path of a libc10.so. `memory` and `flash` are for ebb. Throws Error with the remedy.
std::unique_ptr<Allocator> make_allocator(const std::string& name, std::uint64_t memory, const std::string& flash);

}  // namespace ebb::bench
