// Gate on a SimulatedKernel, in every order of steps of its owner, of a thread that unmaps what the owner watches, and
// of one that maps other memory at the same addresses. Nothing of that other memory may ever be taken.
#include "drivers/linux/userfault/gate.h"

#include <gtest/gtest.h>

#include <memory>
#include <mutex>

#include "base/check.h"
#include "interleaving/expectations.h"

namespace ebb::interleaving {
namespace {

using Kernel = SimulatedKernel;

// Who adopts memory, as far as the Gate is concerned: AdoptedMemory's way of taking a block home.
struct Owner {
  explicit Owner(bool through_gate) : through(through_gate) {
    g_kernel = &kernel;
    EBB_CHECK(Gate::make(events, gate) == Status::kOk);
  }
  ~Owner() { gate.forget(); }

  void read_events() {
    if (kernel.read_event()) gone = true;
  }
  // To where its homes are, whose descriptor tells no events.
  void take_home(std::size_t bytes) {
    int error = EAGAIN;
    while (error == EAGAIN && !gone) {
      const std::lock_guard lock(mutex);
      read_events();
      if (gone) return;
      void* const from = reinterpret_cast<void*>(Kernel::kProgram);
      void* const frame = reinterpret_cast<void*>(Kernel::kFrame);
      if (through) {
        const auto moved = gate.pull(map, from, bytes);
        error = moved.error;
        if (moved.bytes > 0) move_to_empty(homes, map, frame, gate.data(), moved.bytes);
      } else {
        error = move_to_empty(homes, map, frame, from, bytes).error;
      }
      if (error == EAGAIN) kernel.await_event();
    }
  }

  SimulatedKernel kernel;
  const bool through;
  std::mutex mutex;
  Userfault events{true}, homes{false};
  ProcessMap map;
  Gate gate;
  bool gone = false;
};

Scenario unmapped_meanwhile(bool through_gate) {
  auto owner = std::make_shared<Owner>(through_gate);
  return {{[=] {
             owner->take_home(4096);
             if (owner->gone) return;
             owner->kernel.await_event();
             const std::lock_guard lock(owner->mutex);
             owner->read_events();
           },
           [=] { owner->kernel.unmap(owner->kernel.program); }, [=] { owner->kernel.map_program_anew(); }},
          [=] {
            require(owner->kernel.frame.content != Kernel::kNew, "what was mapped later is not taken");
            require(owner->kernel.program.content == Kernel::kNew, "it is where it was");
          }};
}

TEST(GateOrders, TakeNothingOfWhatWasMappedLater) {
  expect_right([] { return unmapped_meanwhile(true); });
  expect_failure([] { return unmapped_meanwhile(false); }, "mapped later");
}

// A huge page comes after small ones: the gate is emptied for it, under the lock that is needed to read events.
Scenario cleared(bool unwatched) {
  auto owner = std::make_shared<Owner>(true);
  owner->kernel.unwatches = unwatched;
  return {{[=] {
             owner->take_home(4096);
             owner->kernel.program = {Kernel::kNew, true, true, true};
             owner->take_home(kHugePageBytes);
             require(owner->kernel.frame.content == Kernel::kNew, "it is taken");
             require(owner->gate.settled(), "nothing is to be read");
           },
           [=] {
             if (owner->kernel.unwatches) return;  // then there is nothing to read
             owner->kernel.await_event();
             const std::lock_guard lock(owner->mutex);
             owner->read_events();
           }},
          {}};
}

TEST(GateOrders, ClearWithoutWaitingForWhoReadsEvents) {
  expect_right([] { return cleared(true); });
  expect_failure([] { return cleared(false); }, "no thread can go on");
}

}  // namespace
}  // namespace ebb::interleaving
