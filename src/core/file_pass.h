// FilePass: an iteration of a program as what its launches use of files that it has mapped, and how long they take.
// That much of it holds in another run of the program, where everything else has other addresses and numbers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ebb {

// A tensor in a file.
struct FilePart {
  std::int32_t file = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  bool operator==(const FilePart&) const = default;
};

struct FilePass {
  static constexpr std::size_t kLaunchesMax = 1u << 16;
  static constexpr std::size_t kUsesMax = 1u << 18;

  // Some blocks of one.
  struct Use : FilePart {
    std::uint32_t first_block = 0;  // of those that it lies in
    std::uint32_t blocks = 0;
    bool operator==(const Use&) const = default;
  };
  struct Launch {
    std::uint64_t op = 0;
    std::uint64_t ns = 0;  // until the next one
    std::uint32_t first_use = 0, uses = 0;
  };
  std::vector<Launch> launches;
  std::vector<Use> uses;

  // But for how long it takes, and where in it it begins.
  bool same_as(const FilePass& other) const {
    if (launches.size() != other.launches.size() || uses.size() != other.uses.size()) return false;
    const auto equal = [&](const Launch& here, const Launch& there) {
      return here.op == there.op && here.uses == there.uses &&
             std::equal(uses.begin() + here.first_use, uses.begin() + here.first_use + here.uses,
                        other.uses.begin() + there.first_use);
    };
    std::vector<Launch> twice = launches;
    twice.insert(twice.end(), launches.begin(), launches.end());
    return launches.empty() ||
           std::search(twice.begin(), twice.end(), other.launches.begin(), other.launches.end(), equal) != twice.end();
  }
};

}  // namespace ebb
