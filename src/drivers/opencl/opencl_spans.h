// Spans: the memory that the arguments of a launch name, checked, and which way each piece of it takes to the device.
//
// Made by launch() from what was declared; belongs to one launch, one thread. Invariant: no two spans begin at the same
// address, and spans that overlap are only read or take the pointer itself.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "drivers/linux/process/process_map.h"
#include "drivers/opencl/opencl_kernel.h"
#include "ebb/opencl/device.h"

namespace ebb::opencl {

struct Span {
  std::byte* begin = nullptr;
  std::size_t bytes = 0;
  bool reads = false;  // what it holds now matters: also where not all of it will be written
  bool writes = false;
  bool managed = false;  // by the Runtime of the launch
  const void* allocation = nullptr;
  std::size_t alignment = 1;  // that the kernel's types need
  OpenClPath path = OpenClPath::kStaged;
  Handle<cl_mem> buffer;  // none for system SVM

  const std::byte* end() const { return begin + bytes; }
  Access access() const;
};

struct Spans {
  static constexpr int kNone = -1;
  std::vector<Span> list;
  std::vector<int> of_argument;  // kNone: a number, or no bytes
};

// What a launch has, for the checks.
struct LaunchFacts {
  const Kernel& kernel;
  const OpenClDeviceInfo& device;
  OpenClPath path;
  Runtime* runtime;
};

// Throws Error(kInvalid, kNoMemory, kCorrupt) naming the kernel and the argument.
Spans spans_of(const LaunchFacts& facts, const ProcessMap& map, std::span<const OpenClArgument> arguments);

}  // namespace ebb::opencl
