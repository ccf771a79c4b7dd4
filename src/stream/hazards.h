// Hazards: in which order launches must run that use the same bytes. A launch comes after those that write what it uses
// (read or write after write), and after those that use what it writes (write after read).
//
// Pure data, owned by the graph. Invariant: only launches that are not over are named.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "stream/byte_ranges.h"

namespace ebb {

// What a launch does with [begin, end).
struct UsedBytes {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  bool reads = false;
  bool writes = false;
  bool whole = false;  // writes all of it, before it reads any
};

class Hazards {
 public:
  // Adds a launch; appends those that it comes after, some perhaps more than once. Numbers are not 0.
  void add(std::uint64_t launch, std::span<const UsedBytes> uses, std::vector<std::uint64_t>& after);
  // A launch, added with these uses, is over.
  void remove(std::uint64_t launch, std::span<const UsedBytes> uses);
  bool empty() const { return users_.empty(); }

 private:
  struct Users {
    std::uint64_t writer = 0;            // the last one
    std::vector<std::uint64_t> readers;  // since then
  };
  ByteRanges<Users> users_;
};

}  // namespace ebb
