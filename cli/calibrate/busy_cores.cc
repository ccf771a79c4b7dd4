// See busy_cores.h.
#include "calibrate/busy_cores.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <system_error>

#include "ebb/units.h"

namespace ebb::cli {
namespace {

constexpr std::size_t kFloats = 16 * kMiB / sizeof(float);  // of each of two arrays
constexpr std::size_t kPart = kFloats / 8;                  // a thread's, of an operator: tenths of a millisecond
constexpr unsigned kSpins = 20'000;                         // as `ebb run` lets GNU's OpenMP do

unsigned threads_of_programs() {
  const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  const char* const said = std::getenv("OMP_NUM_THREADS");
  const long wanted = said != nullptr ? std::strtol(said, nullptr, 10) : 0;
  return wanted > 0 ? static_cast<unsigned>(std::min<long>(wanted, cores)) : cores;
}

}  // namespace

void BusyCores::wait_for_all() {
  const std::uint64_t pass = passes_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == sharing_.load(std::memory_order_relaxed)) {
    arrived_.store(0, std::memory_order_relaxed);
    stopped_ = stopping_.load(std::memory_order_relaxed);
    passes_.store(pass + 1, std::memory_order_release);
    passes_.notify_all();
    return;
  }
  for (unsigned spin = 0; spin < kSpins && passes_.load(std::memory_order_acquire) == pass; ++spin) {
  }
  passes_.wait(pass, std::memory_order_acquire);
}

void BusyCores::work() {
  std::vector<float> sums(kFloats), terms(kFloats, 1.0f);
  sharing_.wait(0);
  for (std::size_t at = 0; !stopped_; at = (at + kPart) % kFloats) {
    for (std::size_t i = at; i < at + kPart; ++i) sums[i] = sums[i] * 0.5f + terms[i];
    wait_for_all();
  }
}

BusyCores::BusyCores() {
  try {
    for (unsigned i = threads_of_programs(); i > 0; --i) threads_.emplace_back([this] { work(); });
  } catch (const std::system_error&) {
    // No more threads are to be had: with these, then.
  }
  sharing_ = static_cast<std::uint32_t>(threads_.size());
  sharing_.notify_all();
}

BusyCores::~BusyCores() {
  stopping_ = true;
  for (std::thread& thread : threads_) thread.join();
}

}  // namespace ebb::cli
