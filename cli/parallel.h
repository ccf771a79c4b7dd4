// Pieces of work that have nothing to do with one another, on as many threads as there are processors, the caller's
// among them. A simulation is one thread's work and gives what it gives alone; beside it others do not wait for it.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace ebb::cli {

// Begins them in order, and returns when all are done. `told` hears how many are, from any of the threads, one at a
// time. If pieces throw, no more are begun, and what the first of them in order threw is thrown.
void run_in_parallel(const std::vector<std::function<void()>>& pieces,
                     const std::function<void(std::size_t done)>& told);

}  // namespace ebb::cli
