// See busy_cores.h.
#include "calibrate/busy_cores.h"

#include <algorithm>
#include <cstdlib>
#include <system_error>

#include "ebb/units.h"

namespace ebb::cli {
namespace {

constexpr std::size_t kFloats = 16 * kMiB / sizeof(float);  // of each of two arrays
constexpr std::size_t kPiece = 4096;                        // floats, between looks at whether to stop

unsigned threads_of_programs() {
  const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  const char* const said = std::getenv("OMP_NUM_THREADS");
  const long wanted = said != nullptr ? std::strtol(said, nullptr, 10) : 0;
  return wanted > 0 ? static_cast<unsigned>(std::min<long>(wanted, cores)) : cores;
}

void work(const std::atomic<bool>& stopping) {
  std::vector<float> sums(kFloats), terms(kFloats, 1.0f);
  while (true) {
    for (std::size_t at = 0; at < kFloats; at += kPiece) {
      if (stopping.load(std::memory_order_relaxed)) return;
      for (std::size_t i = at; i < at + kPiece; ++i) sums[i] = sums[i] * 0.5f + terms[i];
    }
  }
}

}  // namespace

BusyCores::BusyCores() {
  try {
    for (unsigned i = threads_of_programs(); i > 0; --i) threads_.emplace_back([this] { work(stopping_); });
  } catch (const std::system_error&) {
    // No more threads are to be had: with these, then.
  }
}

BusyCores::~BusyCores() {
  stopping_ = true;
  for (std::thread& thread : threads_) thread.join();
}

}  // namespace ebb::cli
