// BusyCores: as long as it lives, every core is at work as in the kernels of a program: threads that share one operator
// after the other in equal parts, read and write memory beyond the caches, and before the next wait for the last of
// them as threads of OpenMP do under `ebb run`. Construction and destruction on one thread; passes() on any.
#pragma once

#include <atomic>
#include <cstdint>
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

  // Operators that have ended.
  std::uint64_t passes() const { return passes_.load(std::memory_order_relaxed); }

 private:
  void work();
  void wait_for_all();

  std::atomic<bool> stopping_{false};
  std::atomic<std::uint32_t> sharing_{0};  // threads; 0: not all have been made
  std::atomic<std::uint32_t> arrived_{0};
  std::atomic<std::uint64_t> passes_{0};
  bool stopped_ = false;  // for all threads alike: written between two operators
  std::vector<std::thread> threads_;
};

}  // namespace ebb::cli
