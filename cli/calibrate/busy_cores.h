// BusyCores: as long as it lives, every core is at work as in the kernels of a program: threads that read and write
// memory beyond the caches without a pause. Construction and destruction on one thread.
#pragma once

#include <atomic>
#include <thread>
#include <vector>

namespace ebb::cli {

class BusyCores {
 public:
  // As many threads as programs use: OMP_NUM_THREADS, or all cores.
  BusyCores();
  ~BusyCores();
  BusyCores(const BusyCores&) = delete;
  BusyCores& operator=(const BusyCores&) = delete;

 private:
  std::atomic<bool> stopping_{false};
  std::vector<std::thread> threads_;
};

}  // namespace ebb::cli
