// Imports: the functions by which the libraries of this process call one another. The loader has written their
// addresses into tables of each library; ImportRedirection writes others there, so that libraries which were loaded
// long before us call us instead, as they would if the loader had found us first.
//
// One thread at a time; while others call through the tables. Needs only the C library. What is written stays until the
// process ends, and so must the library that it leads to.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ebb::calls {

struct Import {
  const char* name;
  const void* instead;
};

class ImportRedirection {
 public:
  // `imports` are sorted by name. Returns how many libraries call one of them, of those that have been loaded since the
  // last time: the rest is passed over.
  std::size_t redirect(std::span<const Import> imports);

 private:
  struct Round;
  static int visit(void* library, std::size_t bytes, void* round);
  bool remember(std::uintptr_t base);

  std::uint64_t loaded_ = 0, unloaded_ = 0;  // by the loader's own count, the last time
  std::array<std::uintptr_t, 1024> seen_{};  // bases of libraries; those beyond are looked at again
  std::size_t count_ = 0;
};

}  // namespace ebb::calls
