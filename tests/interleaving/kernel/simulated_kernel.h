// SimulatedKernel: as much of Linux as the Gate stands on: three places for pages, and userfaultfd's rule that nothing
// is moved through a descriptor while a change of the mappings that it watches is under way or has not been read. The
// headers beside it have the names of the driver's own, and stand in their place where gate.cc is compiled for this
// test.
//
// Steps are those of the kernel: who unmaps a watched range counts as changing before he begins, unmaps under the lock
// of the mappings, tells, waits until somebody has read it, and then counts no more (mm/userfaultfd.c,
// fs/userfaultfd.c).
#pragma once

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "interleaving/explorer/explorer.h"

namespace ebb::interleaving {

class SimulatedKernel {
 public:
  static constexpr std::uintptr_t kProgram = 0x10000000, kGate = 0x20000000, kFrame = 0x30000000;
  enum Content : int { kNone, kOld, kNew };
  enum Told : int { kNothing, kUnread, kRead };
  struct Place {
    int content = kNone;
    bool mapped = true;
    bool huge = false;
    bool watched = true;
  };

  // By a thread of the program's; or of what is the driver's own, by the driver.
  void unmap(Place& place) {
    const bool tells = place.watched;
    if (tells) changing.fetch_add(1);
    step([&] { place = {kNone, false, false, false}; });
    if (&place == &program) free.store(true);
    if (!tells) return;
    told.store(kUnread);
    while (told.load() != kRead) {
    }
    changing.fetch_sub(1);
  }
  // By another one, once the addresses are free.
  void map_program_anew() {
    while (!free.load()) {
    }
    step([&] { program = {kNew, true, false, false}; });
  }
  // Whether there was an event.
  bool read_event() {
    int unread = kUnread;
    return told.compare_exchange_strong(unread, kRead);
  }
  void await_event() const {
    while (told.load() == kNothing) {
    }
  }
  int move(bool tells_events, std::uintptr_t to, std::uintptr_t from) {
    if (to == kFrame && from == kGate) return take(frame, gate);  // both the driver's own
    int error = 0;
    step([&] { error = tells_events && changing.load() > 0 ? EAGAIN : take(at(to), at(from)); });
    return error;
  }
  Place& at(std::uintptr_t address) { return address >= kFrame ? frame : address >= kGate ? gate : program; }

  std::atomic<int> changing{0};
  std::atomic<int> told{kNothing};
  std::atomic<bool> free{false};
  Place program{kOld}, gate, frame;
  bool unwatches = true;  // false: a broken kernel, for which unregistering is nothing

 private:
  // What is done under the lock of the mappings is one step.
  template <typename Do>
  void step(Do&& what) {
    mappings_.fetch_add(1);
    const Beforehand unwatched;
    what();
  }
  static int take(Place& to, Place& from) {
    if (!from.mapped) return ENOENT;
    to.content = std::exchange(from.content, kNone);
    to.huge = from.huge;
    return 0;
  }

  std::atomic<int> mappings_{0};
};

inline SimulatedKernel* g_kernel = nullptr;

}  // namespace ebb::interleaving
