// Ring: what the gradients of ranks that train on equal traces take on the network between them, put into the trace of
// one of them.
//
// The model: all ranks reach each launch at the same time. The gradient of a parameter is a tensor of that kind which a
// launch reads that writes weights or optimizer state; it is complete with the last launch that writes it before one
// only reads it. Complete ones fill buckets in that order; a bucket that is full, or of which something is about to be
// read, is summed up by a ring all-reduce. The network does one after the other, beside kernels and transfers, and
// takes none of their time. A launch that reads a gradient waits until it has been summed up.
//
// Pure functions; any thread.
#pragma once

#include <cstdint>

#include "plan/trace.h"

namespace ebb {

struct Ring {
  std::uint32_t ranks = 1;
  double bps = 0;                // of each link between two neighbours, each way
  std::uint64_t latency_ns = 0;  // of one message between two neighbours
  std::uint64_t bucket_bytes = 25ull << 20;

  // Of an all-reduce: 2 (ranks - 1) messages of 1 / ranks of the bytes, one after the other.
  std::uint64_t all_reduce_ns(std::uint64_t bytes) const;
};

struct RingTrace {
  // With a launch "all_reduce" that uses nothing wherever there is something to wait for.
  Trace trace;
  std::uint64_t network_ns = 0;  // that the network is busy
  std::uint64_t waited_ns = 0;   // of it, nothing is computed beside
  std::uint64_t gradient_bytes = 0;
  std::uint64_t reductions = 0;
};

// `trace`: of one iteration, each launch with a duration. With one rank it comes back as it is.
RingTrace with_all_reduces(const Trace& trace, const Ring& ring);

}  // namespace ebb
