// Summary: what a trace comes to, for people and for tests: how many bytes of each kind, how long, and how much memory
// it needs at its peak if every tensor is there from its birth to its death.
//
// A pure function of the trace; deterministic.
#pragma once

#include <array>
#include <cstdint>

#include "plan/trace.h"

namespace ebb {

struct Summary {
  struct Kind {
    std::uint64_t tensors = 0;
    std::uint64_t bytes = 0;
  };
  std::array<Kind, kTraceKinds> kinds;  // by Trace::Kind
  Kind persistent;
  Kind all;
  std::uint64_t total_ns = 0;  // of the launches whose duration is known
  std::uint64_t timed_launches = 0;
  std::uint64_t peak_bytes = 0;
  Trace::LaunchIndex peak_launch = 0;  // the first at which so much is alive
};

Summary summarize(const Trace& trace);

}  // namespace ebb
