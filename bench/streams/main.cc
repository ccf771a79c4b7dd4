// bench_streams: one iteration of one program, timed; one JSON object on standard output.
//
//   bench_streams PROGRAM POLICY MEMORY DATA FLASH_DIRECTORY [QUEUE]
//   bench_streams pca window 256MiB 1GiB /tmp
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "programs.h"

namespace ebb::bench {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Maker maker_of(const std::string& name) {
  if (name == "network") return make_network;
  if (name == "convolution") return make_convolution;
  if (name == "reductions") return make_reductions;
  if (name == "pca") return make_pca;
  if (name == "transform") return make_transform;
  throw Error(Status::kInvalid,
              "program '" + name + "' is unknown; choose network, convolution, reductions, pca or transform");
}

void run(int argc, char** argv) {
  if (argc < 6 || argc > 7) {
    throw Error(Status::kInvalid, "usage: bench_streams PROGRAM POLICY MEMORY DATA FLASH_DIRECTORY [QUEUE]");
  }
  const Maker maker = maker_of(argv[1]);
  Options options;
  options.policy = argv[2];
  options.memory = parse_size(argv[3]);
  const std::uint64_t bytes = parse_size(argv[4]);
  options.flash = argv[5];
  options.flash_bytes = 2 * bytes;
  const auto runtime = Runtime::open(options);
  StreamOptions stream_options;
  if (argc == 7) stream_options.queue_max = std::strtoul(argv[6], nullptr, 10);
  Stream stream(runtime, stream_options);
  const std::unique_ptr<Program> program = maker(runtime, bytes);
  program->prepare(stream);
  stream.synchronize();
  const Stats before = runtime->stats();
  const auto start = std::chrono::steady_clock::now();
  program->iterate(stream);
  stream.synchronize();
  const double seconds = seconds_since(start);
  const Stats after = runtime->stats();
  std::printf("{\"program\": \"%s\", \"policy\": \"%s\", \"seconds\": %.6f, \"stall_seconds\": %.6f, ", argv[1],
              argv[2], seconds, static_cast<double>(after.stall_ns - before.stall_ns) * 1e-9);
  std::printf("\"fetched\": %" PRIu64 ", \"prefetched\": %" PRIu64 ", \"evicted\": %" PRIu64 ", \"clean\": %" PRIu64,
              after.fetched_bytes - before.fetched_bytes, after.prefetched_bytes - before.prefetched_bytes,
              after.evicted_bytes - before.evicted_bytes, after.clean_bytes - before.clean_bytes);
  std::printf(", \"wasted\": %" PRIu64 ", \"faults\": %" PRIu64 ", \"answer\": %.17g}\n",
              after.wasted_bytes - before.wasted_bytes, after.faults - before.faults, program->answer());
}

}  // namespace
}  // namespace ebb::bench

int main(int argc, char** argv) {
  try {
    ebb::bench::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_streams: %s\n", error.what());
    return 1;
  }
  return 0;
}
