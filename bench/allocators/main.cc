// bench_allocators: one allocator, timed call by call; one JSON object on standard output. bench/allocators.py runs it.
//
//   bench_allocators replay ALLOCATOR LOG ITERATIONS MEMORY FLASH_DIRECTORY    a training's own allocations and frees
//   bench_allocators random ALLOCATOR THREADS CALLS MEMORY FLASH_DIRECTORY     1 to 64 MiB, by threads at once
//
// ALLOCATOR: malloc (the one that is loaded: LD_PRELOAD another), ebb, or the path of PyTorch's libc10.so.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "allocator.h"
#include "base/rng.h"
#include "ticks.h"

namespace ebb::bench {
namespace {

constexpr std::uint64_t kPage = 4096;

struct Event {
  std::uint32_t tensor = 0;
  std::uint64_t bytes = 0;  // 0: it is freed
};
struct Log {
  std::vector<Event> events;
  std::vector<Event> persistent;  // there before the first iteration, and after the last
  std::uint32_t tensors = 0;
};

// Lines of `p ID BYTES`, `a ID BYTES` and `f ID`; the ids are below 2^24.
Log read_log(const char* path) {
  std::FILE* const file = std::fopen(path, "r");
  if (file == nullptr) throw Error(Status::kInvalid, std::string("the log '") + path + "' cannot be read");
  Log log;
  char kind = 0;
  std::uint32_t tensor = 0;
  while (std::fscanf(file, " %c %" SCNu32, &kind, &tensor) == 2) {
    Event event{tensor, 0};
    const bool sized = kind == 'a' || kind == 'p';
    if (tensor >= 1u << 24 || (!sized && kind != 'f') ||
        (sized && (std::fscanf(file, "%" SCNu64, &event.bytes) != 1 || event.bytes == 0))) {
      std::fclose(file);
      throw Error(Status::kInvalid, std::string("the log '") + path + "' is damaged; bench/allocators.py writes one");
    }
    (kind == 'p' ? log.persistent : log.events).push_back(event);
    log.tensors = std::max(log.tensors, tensor + 1);
  }
  std::fclose(file);
  return log;
}

// As a kernel that writes its output: every page.
void touch(void* data, std::uint64_t bytes) {
  auto* const at = static_cast<volatile char*>(data);
  for (std::uint64_t i = 0; i < bytes; i += kPage) at[i] = 1;
}

std::uint64_t page_faults() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_minflt + usage.ru_majflt);
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct Times {
  std::vector<std::uint64_t> allocations, frees;  // ticks
};

double ns_at(std::vector<std::uint64_t>& ticks, double share) {
  if (ticks.empty()) return 0;
  const auto rank = static_cast<std::ptrdiff_t>(share * static_cast<double>(ticks.size() - 1));
  std::nth_element(ticks.begin(), ticks.begin() + rank, ticks.end());
  return Ticks::to_ns(ticks[static_cast<std::size_t>(rank)]);
}

void print_times(Times& times) {
  std::printf("\"allocate_p50_ns\": %.1f, \"allocate_p99_ns\": %.1f, ", ns_at(times.allocations, 0.5),
              ns_at(times.allocations, 0.99));
  std::printf("\"free_p50_ns\": %.1f, \"free_p99_ns\": %.1f, ", ns_at(times.frees, 0.5), ns_at(times.frees, 0.99));
}

void print_end(const Allocator& allocator, const Stats& before) {
  const Stats after = allocator.stats();
  std::printf("\"hits\": %" PRIu64 ", \"misses\": %" PRIu64 ", \"trims\": %" PRIu64 ", \"evicted\": %" PRIu64 "}\n",
              after.cache_hits - before.cache_hits, after.cache_misses - before.cache_misses,
              after.cache_trims - before.cache_trims, after.evicted_bytes - before.evicted_bytes);
}

// One iteration after the other; the first two are warm-up, and the very first is told apart.
void replay(Allocator& allocator, const char* path, std::uint32_t iterations) {
  const Log log = read_log(path);
  std::vector<void*> where(log.tensors);
  for (const Event& event : log.persistent) {
    where[event.tensor] = allocator.allocate(event.bytes);
    touch(where[event.tensor], event.bytes);
  }
  Times times;
  std::vector<double> seconds;
  std::uint64_t faults = 0;
  Stats stats;
  for (std::uint32_t iteration = 0; iteration < iterations; ++iteration) {
    if (iteration == 2) {
      times = {};
      faults = page_faults();
      stats = allocator.stats();
    }
    const auto start = std::chrono::steady_clock::now();
    for (const Event& event : log.events) {
      void*& data = where[event.tensor];
      const std::uint64_t from = Ticks::now();
      if (event.bytes > 0) {
        data = allocator.allocate(event.bytes);
        times.allocations.push_back(Ticks::since(from));
        touch(data, event.bytes);
      } else {
        allocator.deallocate(data);
        times.frees.push_back(Ticks::since(from));
      }
    }
    seconds.push_back(seconds_since(start));
  }
  faults = page_faults() - faults;
  std::printf("{\"first_iteration_s\": %.6f, ", seconds.front());
  std::nth_element(seconds.begin() + 2, seconds.begin() + 2 + (iterations - 2) / 2, seconds.end());
  std::printf("\"iteration_s\": %.6f, ", seconds[2 + (iterations - 2) / 2]);
  std::printf("\"faults_an_iteration\": %.1f, \"events\": %zu, ",
              static_cast<double>(faults) / static_cast<double>(iterations - 2), log.events.size());
  print_times(times);
  print_end(allocator, stats);
}

// Every thread has up to three ranges of 1 to 64 MiB, touches their beginnings, and takes and gives them in turn.
void work(Allocator& allocator, std::uint64_t seed, std::uint32_t calls, Times& times) {
  static constexpr std::size_t kHeldMax = 3;
  static constexpr std::uint64_t kMost = 6;  // 2^6 MiB
  Rng rng(seed);
  std::vector<void*> held;
  times.allocations.reserve(calls);
  times.frees.reserve(calls);
  for (std::uint32_t call = 0; call < calls; ++call) {
    if (held.size() == kHeldMax || (!held.empty() && rng.chance(1, 2))) {
      const std::size_t which = rng.below(held.size());
      const std::uint64_t from = Ticks::now();
      allocator.deallocate(held[which]);
      times.frees.push_back(Ticks::since(from));
      held[which] = held.back();
      held.pop_back();
    } else {
      const std::uint64_t bytes = kMiB << rng.below(kMost + 1);
      const std::uint64_t from = Ticks::now();
      held.push_back(allocator.allocate(bytes));
      times.allocations.push_back(Ticks::since(from));
      touch(held.back(), kPage);
    }
  }
  for (void* const data : held) allocator.deallocate(data);
}

void random(Allocator& allocator, std::uint32_t threads, std::uint32_t calls) {
  std::vector<Times> times(threads);
  Stats stats;
  double seconds = 0;
  for (const bool warm : {false, true}) {
    times.assign(threads, {});
    stats = allocator.stats();
    const auto start = std::chrono::steady_clock::now();
    std::vector<std::thread> workers;
    for (std::uint32_t t = 0; t < threads; ++t) {
      workers.emplace_back([&, t] { work(allocator, t + 1, warm ? calls : calls / 10, times[t]); });
    }
    for (std::thread& worker : workers) worker.join();
    seconds = seconds_since(start);
  }
  Times all;
  for (const Times& each : times) {
    all.allocations.insert(all.allocations.end(), each.allocations.begin(), each.allocations.end());
    all.frees.insert(all.frees.end(), each.frees.begin(), each.frees.end());
  }
  std::printf("{\"mean_ns\": %.1f, ", seconds * 1e9 / calls);
  print_times(all);
  print_end(allocator, stats);
}

std::uint32_t number(const char* text, std::uint32_t least) {
  const unsigned long value = std::strtoul(text, nullptr, 10);
  if (value < least || value > 1u << 30) {
    throw Error(Status::kInvalid, std::string("'") + text + "' is not a number from " + std::to_string(least));
  }
  return static_cast<std::uint32_t>(value);
}

void run(int argc, char** argv) {
  const std::string mode = argc == 7 ? argv[1] : "";
  if (mode != "replay" && mode != "random") {
    throw Error(Status::kInvalid,
                "usage: bench_allocators replay ALLOCATOR LOG ITERATIONS MEMORY FLASH_DIRECTORY, or "
                "bench_allocators random ALLOCATOR THREADS CALLS MEMORY FLASH_DIRECTORY");
  }
  Ticks::calibrate();
  const std::unique_ptr<Allocator> allocator = make_allocator(argv[2], parse_size(argv[5]), argv[6]);
  if (mode == "replay") {
    replay(*allocator, argv[3], number(argv[4], 3));
  } else {
    random(*allocator, number(argv[3], 1), number(argv[4], 100));
  }
}

}  // namespace
}  // namespace ebb::bench

int main(int argc, char** argv) {
  try {
    ebb::bench::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_allocators: %s\n", error.what());
    return 1;
  }
  return 0;
}
