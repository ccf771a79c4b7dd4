// SignalFaults: touches of absent (PROT_NONE) blocks of one range, caught as SIGSEGV: the fault source of machines
// without userfaultfd.
//
// Life of a fault:
//   1. the handler, on the touching thread, posts the block in a free slot of the range's desk, rings the event
//      descriptor and waits on the slot's futex;
//   2. next() takes it;
//   3. wake(), here() or fail() settles every slot of the block;
//   4. the handler frees the slot and returns, and the access is repeated; or it raises SIGBUS.
// A fault that is posted after its block was attached is taken like any other, and its owner finds the block there and
// says so, with here(): nothing is lost. If the frame is mapped there without the right to this access, the program has
// taken that away (mprotect), and the signal is its own.
//
// The handler is installed once, with the first range, and stays: what is not ours goes to the handler there was
// before. It uses only atomics, write(2) and futex(2) on preallocated slots, and keeps errno. A handler that is
// installed after it and does not pass faults on takes them away from us; a thread that blocks SIGSEGV dies of an
// absent block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/index.h"
#include "ebb/status.h"

namespace ebb {

class SignalFaults {
 public:
  static constexpr std::size_t kRangesMax = 64;  // of a process
  static constexpr std::size_t kSlots = 64;      // threads that wait in one range; more spin until one is free

  SignalFaults() = default;
  SignalFaults(const SignalFaults&) = delete;
  SignalFaults& operator=(const SignalFaults&) = delete;
  // By then no thread touches the range.
  ~SignalFaults();

  // kUnsupported: no room for another range, or no event descriptor. At most once.
  Status watch(const std::byte* begin, std::size_t bytes, std::size_t block_bytes);

  std::size_t next(std::span<BlockIndex> blocks);
  void interrupt();
  // Those who wait for the block try again; if the program does not forbid it; or get SIGBUS.
  void wake(BlockIndex block);
  void here(BlockIndex block);
  void fail(BlockIndex block);
  // In a forked child: forgets the threads of the parent and stops sharing its event descriptor.
  Status enter_child();
  // In a child that nobody serves: a touch is the program's SIGSEGV.
  void abandon();

  struct Desk;

 private:
  Desk* desk_ = nullptr;
};

}  // namespace ebb
