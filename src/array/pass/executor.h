// The executor: runs the tasks of one pass on a few threads. The seam where passes meet scheduling: what a pass reads
// and writes is declared to the Runtime first, so that what comes later in the pass is fetched while it runs.
//
// One pool for the process, made when first needed, and again in the child of a fork. Any thread may run a pass; while
// the pool is busy with one, another runs its tasks itself. Tasks of a pass may run in any order and together.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "ebb/runtime.h"

namespace ebb::array {

// What a pass touches, in the order in which it goes through it.
struct PassAccesses {
  std::uint64_t op = 0;  // identifies the pass across iterations
  const char* label = "array";
  std::vector<Access> accesses;  // only of memory that `runtime` manages
  std::shared_ptr<Runtime> runtime;
};

// Calls body() while what it touches is announced.
void run_announced(const PassAccesses& accesses, const std::function<void()>& body);
// Calls task(0) … task(count - 1) and waits for all. The first exception of a task is thrown after the others ended.
void run_tasks(std::int64_t count, const std::function<void(std::int64_t)>& task);

}  // namespace ebb::array
