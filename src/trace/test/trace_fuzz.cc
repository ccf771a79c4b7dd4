// trace_fuzz: random traces come back from every kind of file as they were, and damaged files are refused with a
// message or read as a trace that keeps check(). Never a crash, and nothing but an Error.
//
//   trace_fuzz --seed 1 --runs 200   # seeds 1 to 200; on a failure the seed is in the output
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "ebb/status.h"
#include "trace/import.h"
#include "trace/reader.h"
#include "trace/writer.h"
#include "trace_samples.h"

namespace ebb {
namespace {

constexpr const char* kPyTorchSample = "src/trace/test/data/mlp_adam.et.json.gz";
std::uint64_t g_seed = 0;

struct Reached {
  std::uint64_t refused = 0, accepted = 0, imported = 0;
};

[[noreturn]] void failed(const std::string& what, const std::string& file) {
  std::fprintf(stderr, "trace_fuzz: seed %llu: %s\n", static_cast<unsigned long long>(g_seed), what.c_str());
  const std::string path = "trace_fuzz-" + std::to_string(g_seed) + ".bad";
  write_file(path, file);
  std::fprintf(stderr, "trace_fuzz: the file is %s; again with --seed %llu --runs 1\n", path.c_str(),
               static_cast<unsigned long long>(g_seed));
  std::exit(1);
}

void on_abort(int) {
  std::fprintf(stderr, "trace_fuzz: aborted at seed %llu\n", static_cast<unsigned long long>(g_seed));
  std::signal(SIGABRT, SIG_DFL);
}

void read_damaged(const std::string& bytes, Reached& reached) {
  try {
    std::istringstream stream(bytes);
    const Import import = import_trace(stream, "damaged");
    if (const std::string wrong = check(import.trace); !wrong.empty()) failed("accepted although " + wrong, bytes);
    ++reached.accepted;
    reached.imported += import.notes.empty() ? 0 : 1;
  } catch (const Error& error) {
    if (std::string(error.what()).rfind("damaged:", 0) != 0) failed(std::string("unnamed: ") + error.what(), bytes);
    ++reached.refused;
  }
}

void mutate_bytes(std::string& bytes, Rng& rng) {
  static constexpr char kTelling[] = "{}[]\",:0123456789-.eE\n\0 \xff\xc3";
  for (std::uint64_t i = rng.between(1, 4); i-- > 0 && !bytes.empty();) {
    const std::size_t at = rng.below(bytes.size());
    switch (rng.below(5)) {
      case 0: bytes[at] = static_cast<char>(rng.below(256)); break;
      case 1: bytes[at] = kTelling[rng.below(sizeof kTelling)]; break;
      case 2: bytes.insert(at, 1, kTelling[rng.below(sizeof kTelling)]); break;
      case 3: bytes.erase(at, rng.between(1, 8)); break;
      default: bytes.resize(at); break;
    }
  }
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string random_line(Rng& rng) {
  const auto number = [&] { return std::to_string(rng.chance(1, 8) ? rng.next() : rng.below(50)); };
  switch (rng.below(6)) {
    case 0: return "{\"alloc\":" + number() + "}";
    case 1: return "{\"free\":" + number() + "}";
    case 2: return "{\"mark\":\"step\"}";
    case 3: return "{\"tensor\":" + number() + ",\"bytes\":" + number() + "}";
    case 4: return "{\"launch\":" + number() + ",\"op\":\"x\",\"reads\":[" + number() + "],\"ns\":" + number() + "}";
    default: return "{\"unknown\":[{\"launch\":1}]}";
  }
}

void mutate_lines(std::string& text, Rng& rng) {
  std::vector<std::string> lines = lines_of(text);
  for (std::uint64_t i = rng.between(1, 3); i-- > 0 && !lines.empty();) {
    const std::size_t at = rng.below(lines.size());
    switch (rng.below(4)) {
      case 0: lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(at)); break;
      case 1: lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(at), random_line(rng)); break;
      case 2: std::swap(lines[at], lines[rng.below(lines.size())]); break;
      default: lines.push_back(lines[at]); break;
    }
  }
  text.clear();
  for (const std::string& line : lines) text += line + "\n";
}

void round_trips(const TemporaryDirectory& directory, Rng& rng, Reached& reached) {
  const Trace trace = random_trace(rng);
  if (const std::string wrong = check(trace); !wrong.empty()) failed("the sample is invalid: " + wrong, "");
  std::string plain;
  for (const char* suffix : {"jsonl", "jsonl.gz", "jsonl.zst"}) {
    const std::string path = directory.file(std::string("trace.") + suffix);
    write_trace(trace, path);
    const std::string bytes = read_file(path);
    if (!same(read_trace(path), trace)) failed(std::string("comes back changed from ") + suffix, bytes);
    if (plain.empty()) plain = bytes;
    for (int i = 0; i < 4; ++i) {
      std::string damaged = bytes;
      mutate_bytes(damaged, rng);
      read_damaged(damaged, reached);
    }
  }
  for (int i = 0; i < 12; ++i) {
    std::string damaged = plain;
    mutate_lines(damaged, rng);
    read_damaged(damaged, reached);
  }
}

// A varint, or a field of a protobuf message: number and bytes.
std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}
std::string field(std::uint64_t number, const std::string& bytes) {
  return varint(number << 3 | 2) + varint(bytes.size()) + bytes;
}
std::string field(std::uint64_t number, std::uint64_t value) { return varint(number << 3) + varint(value); }

std::string random_chakra(Rng& rng) {
  const auto tensor = [&] {
    return "[" + std::to_string(rng.below(9)) + ", " + std::to_string(rng.below(9)) + ", 0, " +
           std::to_string(rng.below(99)) + ", 4, 'cpu']";
  };
  std::string file;
  const auto add = [&](const std::string& message) { file += varint(message.size()) + message; };
  add(field(1, "0.0.4"));
  for (std::uint64_t id = 2; id < 12; ++id) {
    const std::string in = field(1, "[" + tensor() + ", None, [" + tensor() + "]]");
    add(field(1, id) + field(2, "aten::add") + field(3, rng.below(8)) + field(4, rng.below(id)) +
        field(7, rng.below(100)) + field(8, in) + field(9, field(1, "[" + tensor() + "]")));
  }
  return file;
}

int run(std::uint64_t seed, std::uint64_t runs) {
  std::signal(SIGABRT, on_abort);
  std::printf("seed %llu, %llu runs\n", static_cast<unsigned long long>(seed), static_cast<unsigned long long>(runs));
  const TemporaryDirectory directory;
  const std::string pytorch_gz = read_file(kPyTorchSample);
  Reached reached;
  for (std::uint64_t i = 0; i < runs; ++i) {
    g_seed = seed + i;
    Rng rng(g_seed);
    round_trips(directory, rng, reached);
    std::string chakra = random_chakra(rng);
    read_damaged(chakra, reached);
    for (int k = 0; k < 4; ++k) {
      std::string damaged = chakra;
      mutate_bytes(damaged, rng);
      read_damaged(damaged, reached);
    }
    if (pytorch_gz.empty() || i % 16 != 0) continue;
    std::string damaged = pytorch_gz;
    mutate_bytes(damaged, rng);
    read_damaged(damaged, reached);
  }
  std::printf("reached: %llu refused, %llu accepted, %llu of them imported\n",
              static_cast<unsigned long long>(reached.refused), static_cast<unsigned long long>(reached.accepted),
              static_cast<unsigned long long>(reached.imported));
  std::printf("seed %llu, %llu runs\n", static_cast<unsigned long long>(seed), static_cast<unsigned long long>(runs));
  return 0;
}

std::uint64_t number(const char* text) {
  char* end = nullptr;
  const std::uint64_t value = std::strtoull(text, &end, 10);
  if (*text < '0' || *text > '9' || *end != '\0') {
    std::fprintf(stderr, "trace_fuzz: not a number: '%s'\n", text);
    std::exit(2);
  }
  return value;
}

}  // namespace
}  // namespace ebb

int main(int argc, char** argv) {
  std::uint64_t seed = 1;
  std::uint64_t runs = 100;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if ((name != "--seed" && name != "--runs") || i + 1 == argc) {
      std::fprintf(stderr,
                   "trace_fuzz: unknown option, or without its value: '%s'\nusage: trace_fuzz [--seed N] [--runs N]\n",
                   argv[i]);
      return 2;
    }
    (name == "--seed" ? seed : runs) = ebb::number(argv[++i]);
  }
  return ebb::run(seed, runs);
}
