// Layer: a library with the entry points of OpenCL that stands between the driver and the real one: PoCL, or under
// sanitizers one of our own (../soft). It changes what devices say of themselves, fails any call, loses the end of a
// command, and counts what is not released.
//
// Loaded by its path, as the driver loads it; a test reaches it by dlsym("opencl_layer"). Settings are changed while no
// launch runs; counters are atomic.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace ebb::opencl_test {

struct Layer {
  static constexpr int kOutOfHostMemory = -6, kInvalidOperation = -59;

  // What devices say.
  bool no_unified_memory = false;
  bool system_svm = false;  // PoCL's CPU has it in truth, whatever it says
  bool as_gpu = false;
  bool no_correct_division = false;
  bool no_denormals = false;
  std::uint32_t alignment_bits = 0;    // 0: what it is
  std::uint64_t buffer_bytes_max = 0;  // 0: what it is
  // Buffers over memory of the host work on copies of it, as OpenCL allows: only a map brings them home.
  bool copies_host_memory = false;
  bool never_ends = false;  // no callback comes

  // Of all calls but releases: the one with this number fails, counted from 0 since `calls` was set to 0. -1: none.
  std::atomic<int> calls{0};
  std::atomic<int> fail_at{-1};
  std::atomic<bool> failed{false};
  int error = kOutOfHostMemory;          // that it fails with
  std::atomic<bool> fail_events{false};  // commands end with an error

  enum Kind { kContext, kQueue, kProgram, kKernel, kBuffer, kEvent, kKinds };
  std::array<std::atomic<int>, kKinds> live{};
  std::atomic<int> host_buffers{0}, device_buffers{0}, pointers{0};  // made and set so far

  void reset() {
    no_unified_memory = system_svm = as_gpu = no_correct_division = no_denormals = false;
    copies_host_memory = never_ends = false;
    alignment_bits = 0;
    buffer_bytes_max = 0;
    fail_at = -1;
    error = kOutOfHostMemory;
    fail_events = false;
    host_buffers = device_buffers = pointers = 0;
  }
};

}  // namespace ebb::opencl_test
