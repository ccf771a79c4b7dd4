// stream_fuzz: random launches on several streams, with reads, writes, updates and overwrites of random bytes of a
// buffer larger than memory, events between streams and kernels that throw, against a model that does one launch after
// the other. Whatever the streams do at the same time, the same must come of it: content, and who failed because of
// whom.
//
//   stream_fuzz --seed 1 --runs 200   # seeds 1 to 200; on a failure the seed is in the output
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"
#include "ebb/stream.h"

namespace ebb {
namespace {

constexpr std::uint64_t kBlock = 4 * kKiB;
constexpr std::size_t kWords = 256 * 1024;  // 2 MiB in some 0.8 MiB of frames
constexpr std::size_t kWordsMax = 2048;     // of a use
constexpr std::size_t kStreams = 3;
constexpr int kSkip = 77;

std::uint64_t mix(std::uint64_t value) { return Rng(value).next(); }

struct Piece {
  Use::Kind kind = Use::Kind::kReads;
  std::size_t begin = 0;
  std::size_t end = 0;

  bool reads() const { return kind == Use::Kind::kReads || kind == Use::Kind::kUpdates; }
};

// One launch: what it computes depends on all that it reads, on its number, and on nothing else.
struct Program {
  std::uint64_t number = 0;
  bool throws = false;
  std::vector<Piece> pieces;

  void run(std::uint64_t* words) const {
    std::uint64_t seen = number;
    for (const Piece& piece : pieces) {
      if (!piece.reads()) continue;
      for (std::size_t i = piece.begin; i < piece.end; ++i) seen = seen * 31 + words[i];
    }
    for (const Piece& piece : pieces) write(piece, seen, words);
  }
  static void write(const Piece& piece, std::uint64_t seen, std::uint64_t* words) {
    if (piece.kind == Use::Kind::kReads) return;
    const std::size_t step = piece.kind == Use::Kind::kWrites ? 3 : 1;
    const bool update = piece.kind == Use::Kind::kUpdates;
    parallel_for((piece.end - piece.begin + step - 1) / step, 1024, [&](std::size_t first, std::size_t last) {
      for (std::size_t k = first; k < last; ++k) {
        std::uint64_t& word = words[piece.begin + k * step];
        word = mix(seen + k + (update ? word : 0));
      }
    });
  }
};

// What the streams must do, one launch after the other.
class Model {
 public:
  Model() : words_(kWords), defined_(kWords), poisoned_(kWords) {}

  std::vector<std::uint64_t>& words() { return words_; }
  bool defined(std::size_t i) const { return defined_[i]; }
  void define(std::size_t i, std::uint64_t word) {
    words_[i] = word;
    defined_[i] = true;
  }
  // Whether the launch does what it should.
  bool run(const Program& program) {
    const bool fails = program.throws || reads_poison(program);
    for (const Piece& piece : program.pieces) {
      if (piece.kind == Use::Kind::kReads) continue;
      const bool whole = piece.kind == Use::Kind::kOverwrites;
      if (fails) mark(poisoned_, piece, true);
      if (fails && whole) mark(defined_, piece, false);
      if (!fails && whole) mark(poisoned_, piece, false);
      if (!fails && whole) mark(defined_, piece, true);
    }
    if (!fails) program.run(words_.data());
    return !fails;
  }
  void forgive() { std::fill(poisoned_.begin(), poisoned_.end(), false); }

 private:
  bool reads_poison(const Program& program) const {
    return std::any_of(program.pieces.begin(), program.pieces.end(), [&](const Piece& piece) {
      return piece.reads() &&
             std::find(at(poisoned_, piece.begin), at(poisoned_, piece.end), true) != at(poisoned_, piece.end);
    });
  }
  static std::vector<bool>::const_iterator at(const std::vector<bool>& bits, std::size_t i) {
    return bits.begin() + static_cast<std::ptrdiff_t>(i);
  }
  static void mark(std::vector<bool>& bits, const Piece& piece, bool value) {
    const auto first = bits.begin() + static_cast<std::ptrdiff_t>(piece.begin);
    std::fill(first, first + static_cast<std::ptrdiff_t>(piece.end - piece.begin), value);
  }

  std::vector<std::uint64_t> words_;
  std::vector<bool> defined_;
  std::vector<bool> poisoned_;
};

class StreamFuzz {
 public:
  StreamFuzz(const std::shared_ptr<Runtime>& runtime, std::uint64_t* words, Model& model, std::uint64_t seed)
      : rng_(seed), words_(words), model_(model), first_failure_(kStreams) {
    for (std::size_t i = 0; i < kStreams; ++i) {
      streams_.push_back(std::make_unique<Stream>(runtime, StreamOptions{rng_.between(1, 40), 3}));
    }
  }

  // False if something came out that should not have.
  bool run() {
    const std::uint64_t rounds = rng_.between(1, 2);
    for (std::uint64_t round = 0; round < rounds; ++round) {
      const std::uint64_t launches = rng_.between(1, 40);
      for (std::uint64_t i = 0; i < launches; ++i) launch();
      if (!synchronize() || !compare()) return false;
    }
    return true;
  }

 private:
  void launch() {
    const std::size_t stream = rng_.below(kStreams);
    if (rng_.chance(1, 4)) streams_[stream]->wait(streams_[rng_.below(kStreams)]->record());
    Program program = random_program();
    std::vector<Use> uses;
    for (const Piece& piece : program.pieces) {
      uses.push_back({piece.kind, words_ + piece.begin, (piece.end - piece.begin) * sizeof(std::uint64_t), words_});
    }
    const std::string name = "launch " + std::to_string(program.number);
    if (!model_.run(program) && first_failure_[stream].empty()) first_failure_[stream] = name;
    streams_[stream]->launch(name, uses, [program = std::move(program), words = words_] {
      if (program.throws) throw std::runtime_error("as planned");
      program.run(words);
    });
  }

  // Pieces that do not overlap; a few places come again and again, so that launches meet.
  Program random_program() {
    Program program;
    program.number = ++launches_;
    program.throws = rng_.chance(1, 40);
    const std::uint64_t count = rng_.below(5);
    for (std::uint64_t i = 0; i < count; ++i) {
      Piece piece;
      piece.kind = static_cast<Use::Kind>(rng_.below(4));
      piece.begin = rng_.chance(1, 2) ? rng_.below(16) * (kWords / 16) : rng_.below(kWords);
      piece.end = std::min(kWords, piece.begin + rng_.between(1, rng_.chance(1, 2) ? 200 : kWordsMax));
      const bool apart = std::none_of(program.pieces.begin(), program.pieces.end(), [&](const Piece& other) {
        return other.begin < piece.end && piece.begin < other.end;
      });
      if (!apart) continue;
      program.pieces.push_back(piece);
      used_.push_back(piece);
    }
    return program;
  }

  bool synchronize() {
    bool right = true;
    for (std::size_t i = 0; i < kStreams; ++i) {
      std::string failed;
      try {
        streams_[i]->synchronize();
      } catch (const LaunchError& error) {
        failed = error.launch();
      }
      if (failed != first_failure_[i]) {
        std::fprintf(stderr, "stream %zu: '%s' failed first, not '%s'\n", i, failed.c_str(), first_failure_[i].c_str());
        right = false;
      }
      first_failure_[i].clear();
    }
    model_.forgive();
    return right;
  }

  // Of all that was used: what is undefined now is written, by the program itself.
  bool compare() {
    for (const Piece& piece : used_) {
      for (std::size_t i = piece.begin; i < piece.end; ++i) {
        if (!model_.defined(i)) {
          model_.define(i, words_[i] = rng_.next());
        } else if (words_[i] != model_.words()[i]) {
          std::fprintf(stderr, "word %zu differs from what one launch after the other makes of it\n", i);
          return false;
        }
      }
    }
    used_.clear();
    return true;
  }

  Rng rng_;
  std::uint64_t* words_;
  Model& model_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<std::string> first_failure_;
  std::vector<Piece> used_;
  std::uint64_t launches_ = 0;
};

std::uint64_t number(const char* text) {
  char* end = nullptr;
  const std::uint64_t value = std::strtoull(text, &end, 10);
  if (*text >= '0' && *text <= '9' && *end == '\0') return value;
  std::fprintf(stderr, "stream_fuzz: not a number: '%s'\nusage: stream_fuzz [--seed N] [--runs N]\n", text);
  std::exit(2);
}

// A runtime with a buffer, and what must be in the buffer: kept from run to run. What happens in a run does not depend
// on what is there when it begins.
struct World {
  explicit World(const char* policy) {
    Options options;
    options.memory = kMiB + 64 * kKiB;
    options.flash_bytes = 64 * kMiB;
    options.block_bytes = kBlock;
    options.policy = policy;
    runtime = Runtime::open(options);
    words = static_cast<std::uint64_t*>(runtime->allocate(kWords * sizeof(std::uint64_t)));
    for (std::size_t i = 0; i < kWords; ++i) model.define(i, words[i] = i);
  }
  ~World() { runtime->deallocate(words); }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  std::shared_ptr<Runtime> runtime;
  std::uint64_t* words = nullptr;
  Model model;
};

int run(std::uint64_t seed, std::uint64_t runs) {
  constexpr const char* kPolicies[] = {"window", "foresight", "on_demand"};
  std::map<std::string, std::unique_ptr<World>> worlds;
  try {
    for (const char* policy : kPolicies) worlds[policy] = std::make_unique<World>(policy);
  } catch (const Error& error) {
    std::printf("skip: %s\n", error.what());
    return kSkip;
  }
  for (std::uint64_t i = seed; i < seed + runs; ++i) {
    const char* const policy = kPolicies[i % 3];
    World& world = *worlds[policy];
    if (StreamFuzz(world.runtime, world.words, world.model, i).run()) continue;
    std::fprintf(stderr, "stream_fuzz: seed %llu failed with %s\n", static_cast<unsigned long long>(i), policy);
    return 1;
  }
  std::printf("seed %llu, %llu runs\n", static_cast<unsigned long long>(seed), static_cast<unsigned long long>(runs));
  return 0;
}

}  // namespace
}  // namespace ebb

int main(int argc, char** argv) {
  std::uint64_t seed = 1;
  std::uint64_t runs = 20;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--seed") == 0) seed = ebb::number(argv[i + 1]);
    if (std::strcmp(argv[i], "--runs") == 0) runs = ebb::number(argv[i + 1]);
  }
  return ebb::run(seed, runs);
}
