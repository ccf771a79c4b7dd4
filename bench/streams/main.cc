// bench_streams: one iteration of one program, timed; one JSON object on standard output.
//
//   bench_streams PROGRAM HOW MEMORY DATA DIRECTORY [QUEUE]
//   bench_streams pca window 256MiB 1GiB /tmp
//
// HOW is a policy of the runtime (window, on_demand), or what the same program runs on without it: memory,
// mapped, mapped_sequential. `digest` is that of the digests of all blocks of all arrays.
#include <unistd.h>

#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
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

Kind kind_of(const std::string& how) {
  if (how == "memory") return Kind::kMemory;
  if (how == "mapped") return Kind::kMapped;
  if (how == "mapped_sequential") return Kind::kMappedSequential;
  return Kind::kManaged;
}

// FNV-1a over words of 64 bits: a step is a bijection, so bytes that differ in one word never have the same digest.
std::uint64_t digest_of(const Bytes& bytes, std::uint64_t digest = 0xcbf29ce484222325) {
  std::size_t at = 0;
  for (std::uint64_t word = 0; at + sizeof word <= bytes.size(); at += sizeof word) {
    std::memcpy(&word, bytes.data() + at, sizeof word);
    digest = (digest ^ word) * 0x100000001b3;
  }
  for (; at < bytes.size(); ++at) digest = (digest ^ static_cast<std::uint64_t>(bytes[at])) * 0x100000001b3;
  return digest;
}

std::uint64_t digest_of(const std::vector<Bytes>& content) {
  constexpr std::size_t kBlock = std::size_t{2} << 20;
  std::vector<std::uint64_t> digests;
  for (const Bytes& bytes : content) {
    for (std::size_t at = 0; at < bytes.size(); at += kBlock) {
      digests.push_back(digest_of(bytes.subspan(at, std::min(kBlock, bytes.size() - at))));
    }
  }
  return digest_of(bytes_of(digests));
}

void run(int argc, char** argv) {
  if (argc < 6 || argc > 7) {
    throw Error(Status::kInvalid, "usage: bench_streams PROGRAM HOW MEMORY DATA DIRECTORY [QUEUE]");
  }
  const Maker maker = maker_of(argv[1]);
  Options options;
  Source source{.runtime = nullptr, .kind = kind_of(argv[2]), .directory = argv[5]};
  if (source.kind == Kind::kManaged) options.policy = argv[2];
  options.memory = parse_size(argv[3]);
  const std::uint64_t bytes = parse_size(argv[4]);
  options.flash = argv[5];
  options.flash_bytes = 2 * bytes;
  const auto runtime = Runtime::open(options);
  source.runtime = runtime;
  StreamOptions stream_options;
  if (argc == 7) stream_options.queue_max = std::strtoul(argv[6], nullptr, 10);
  Stream stream(runtime, stream_options);
  const std::unique_ptr<Program> program = maker(source, bytes);
  program->prepare(stream);
  stream.synchronize();
  if (source.kind != Kind::kManaged)
    ::sync();  // what is left to write of the data is no part of the kernel's iteration
  const Stats before = runtime->stats();
  const auto start = std::chrono::steady_clock::now();
  program->iterate(stream);
  stream.synchronize();
  const double seconds = seconds_since(start);
  const Stats after = runtime->stats();
  std::printf("{\"program\": \"%s\", \"how\": \"%s\", \"seconds\": %.6f, \"stall_seconds\": %.6f, ", argv[1], argv[2],
              seconds, static_cast<double>(after.stall_ns - before.stall_ns) * 1e-9);
  std::printf("\"fetched\": %" PRIu64 ", \"prefetched\": %" PRIu64 ", \"evicted\": %" PRIu64 ", \"clean\": %" PRIu64,
              after.fetched_bytes - before.fetched_bytes, after.prefetched_bytes - before.prefetched_bytes,
              after.evicted_bytes - before.evicted_bytes, after.clean_bytes - before.clean_bytes);
  std::printf(", \"wasted\": %" PRIu64 ", \"faults\": %" PRIu64 ", \"digest\": \"%016" PRIx64 "\"}\n",
              after.wasted_bytes - before.wasted_bytes, after.faults - before.faults, digest_of(program->content()));
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
