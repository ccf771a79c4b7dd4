// `ebb sim TRACE --ranks N,...`: so many ranks of one trace, with a drive that some of them share and a network between
// all (src/sim/ring.h): from how many on one of the two binds. Writes to stdout; numbers of ranks in parallel.
#pragma once

#include "plan/trace.h"
#include "sim/sim_command.h"
#include "sim/trace_simulator.h"

namespace ebb::cli {

// Of these ranks the drive's bandwidth is divided equally; `options` is the machine of one of them, that has the drive
// to itself. Throws Error for what the user gave.
int simulate_ranks(const SimArguments& arguments, const Trace& trace, const std::string& policy,
                   const TraceSimulator::Options& options);

}  // namespace ebb::cli
