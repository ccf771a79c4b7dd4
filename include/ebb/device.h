// DeviceRuntime: one address space over GPU memory, pinned host memory and flash. A Runtime whose pointers are for the
// GPU; the host cannot look at them.
//
//   auto runtime = ebb::DeviceRuntime::open({.memory = 64_GiB, .flash = "/nvme", .device_memory = 20_GiB});
//   void* x = runtime->allocate(8_GiB);
//   const ebb::Access used[] = {{x, 8_GiB, x}};
//   const auto ticket = runtime->announce_on(stream, op, used);  // what was elsewhere is on its way; the stream waits
//   kernel<<<…, stream>>>(x);                                    // started as ever
//   runtime->retire(ticket);                                     // all kernels of the launch are in the stream now
//
// A GPU has no page faults: a kernel may touch what a launch has announced, between announce_on() and retire(), in the
// stream named there, and nothing else. What a launch announces stays until all that was started before its retire() is
// over, and has to fit into device memory together.
//
// Threads: every function may be called from any thread. Work that a thread starts while it has no launch open must not
// touch managed memory. A stream is a CUstream (a cudaStream_t); null is the default stream. A forked child must not
// use it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "ebb/runtime.h"

namespace ebb {

class DeviceRuntime : public Runtime {
 public:
  using Stream = void*;

  // Throws Error with the remedy: no driver, no GPU, one without the virtual memory API, not so much memory on it or to
  // be pinned, nonsense options.
  static std::shared_ptr<DeviceRuntime> open(const Options& options);

  // allocate(): aligned to 512 bytes, whatever the size. Throws Error(kNoMemory), or kIoError when the GPU is lost. The
  // default stream is that of deallocate() and announce(); what announce() cannot throw is said on stderr and by
  // failure(), and its ticket is then 0.
  // What was started in `stream`, or in a launch, before this may still use it.
  virtual void deallocate_on(void* data, Stream stream) noexcept = 0;
  // Memory that is there at once, for work that starts in `stream` and announces nothing, and stays until unpin_on() or
  // deallocate_on(): what an operator makes while it runs, what a library keeps for its kernels. Throws Error as
  // announce_on() besides.
  virtual void* allocate_on(Stream stream, std::size_t bytes) = 0;
  // From now on whoever uses these of allocate_on()'s announces it; work in `stream` may have used them until now.
  virtual void unpin_on(Stream stream, std::span<const void* const> allocations) noexcept = 0;
  // Work that was started in `stream` before this, without a launch, uses the allocation at `data`.
  virtual void use_on(Stream stream, const void* data) noexcept = 0;
  // Throws Error: kNoMemory when the accesses and those of other open launches do not fit into device memory together,
  // kCorrupt when a block could not be read back, kIoError when the GPU is lost.
  virtual std::uint64_t announce_on(Stream stream, std::uint64_t op, std::span<const Access> accesses) = 0;
  // Waits until everything that was started in launches, and every copy, is over. Throws Error when the GPU is lost.
  virtual void synchronize() = 0;
  // Why the GPU is lost, or a launch had to be refused where it could not be thrown; empty while all is well.
  virtual std::string failure() const = 0;
  // What it was opened with, sizes filled in.
  virtual const Options& options() const = 0;
};

}  // namespace ebb
