// The software CUDA driver, seen by tests: kernels, and what a GPU does not offer: what went wrong, what is left, and
// failures on demand. The library libcuda_soft.so exports the driver entry points that Ebbtide uses beside these.
//
// It runs on host memory, with a thread for each stream, and checks what a GPU would punish or, worse, let pass:
// - access to an address that is not mapped or not permitted: memory really is PROT_NONE, and the error is sticky;
// - work that is not ordered by streams and events but touches the same bytes, one of them writing: found from the
// order
//   of the calls alone (vector clocks over streams, events and the host), so it does not depend on who runs first;
// - unmapping, releasing or freeing what work may still use; copies from memory that is not pinned; calls without a
//   context; leaks.
// Not modelled: the legacy default stream's waiting for others (it is a stream like any), timing, several contexts.
//
// Threads: any. One world per process; reset() makes it anew and must not meet other calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#define EBB_SOFT __attribute__((visibility("default")))

namespace ebb::soft {

struct Machine {
  int devices = 1;
  int driver_version = 13000;
  bool virtual_memory = true;
  bool pageable_access = false;  // kernels may touch memory of the host
  bool prefetch = true;          // and its pages can be moved
  std::size_t memory_bytes = std::size_t{256} << 20;
  std::size_t pinned_bytes = std::size_t{1} << 30;
  std::size_t granularity = std::size_t{64} << 10;
};

// What a kernel touches: nothing else may be (but is found only if it is not mapped).
struct Touch {
  const void* address = nullptr;
  std::size_t bytes = 0;
  bool write = false;
};

// Pages that were asked to move.
struct Prefetch {
  const void* address = nullptr;
  std::size_t bytes = 0;
  int device = 0;  // -1: the host
};

struct Live {
  std::size_t reservations = 0, mappings = 0, handles = 0, allocations = 0, pinned = 0, streams = 0, events = 0;
  std::size_t contexts = 0, modules = 0;
  std::size_t total() const {
    return reservations + mappings + handles + allocations + pinned + streams + events + contexts + modules;
  }
};

EBB_SOFT void reset(const Machine& machine = {});
// Starts a kernel: `body` runs in the stream's thread, on device addresses. Returns a CUresult. A body must not own
// anything: where it touches what is not there, it ends without destructors.
EBB_SOFT int launch(void* stream, std::span<const Touch> touches, std::function<void()> body);
// What kernels touch that cuLaunchKernel starts in this stream from now on: the driver cannot tell from their
// parameters. Nothing: none may be started.
EBB_SOFT void expect(void* stream, std::span<const Touch> touches);
EBB_SOFT int new_stream(void** stream);
EBB_SOFT int delete_stream(void* stream);
// What `after` is given from now on waits for what `before` has been given, as an event does.
EBB_SOFT int order(void* before, void* after);
// Waits for a stream, as cuStreamSynchronize.
EBB_SOFT int wait_for(void* stream);
// Since the last time.
EBB_SOFT std::vector<Prefetch> take_prefetches();
// What was done wrong since the last time.
EBB_SOFT std::vector<std::string> take_violations();
EBB_SOFT Live live();
// The `nth` call from now on, of all or of those to one function, fails with this CUresult. 0: never.
EBB_SOFT void fail_call(std::uint64_t nth, int error, const char* function = nullptr);
// Calls that could have failed since then.
EBB_SOFT std::uint64_t calls();
// From now on every call fails so: the device is gone.
EBB_SOFT void lose(int error);

}  // namespace ebb::soft
