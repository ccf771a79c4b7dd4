// OperatorTable: a number that is found out once for each operator, and is on the path of every operator.
//
// A static object of any thread, also in a child of fork() and while a process ends: it has no lock, allocates nothing,
// and is never destroyed. An entry is claimed by its key and may be found out by several threads at once, each with the
// same result; an entry claimed by a thread that the fork has left behind is so completed by the child. When the table
// is full, what is new is found out each time.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace ebb::torch_adapter {

class OperatorTable {
 public:
  static constexpr unsigned kValueBits = 63;

  // `op`: a hash of what identifies the operator. find_out() returns the value, of kValueBits.
  template <typename FindOut>
  std::uint64_t get(std::uint64_t op, FindOut&& find_out) {
    if (op == kNone) return find_out();
    for (std::size_t tries = 0; tries < kTriesMax; ++tries) {
      Entry& entry = entries_[(op + tries) % entries_.size()];
      std::uint64_t claimed = entry.op.load(std::memory_order_relaxed);
      if (claimed == kNone && entry.op.compare_exchange_strong(claimed, op, std::memory_order_relaxed)) claimed = op;
      if (claimed != op) continue;
      if (const std::uint64_t known = entry.value.load(std::memory_order_acquire); (known & kKnown) != 0) {
        return known & ~kKnown;
      }
      const std::uint64_t value = find_out();
      entry.value.store(value | kKnown, std::memory_order_release);
      return value;
    }
    return find_out();
  }

 private:
  static constexpr std::uint64_t kNone = 0;
  static constexpr std::uint64_t kKnown = std::uint64_t{1} << kValueBits;
  static constexpr std::size_t kTriesMax = 64;

  struct Entry {
    std::atomic<std::uint64_t> op{kNone};
    std::atomic<std::uint64_t> value{0};
  };
  std::array<Entry, 8192> entries_{};  // PyTorch has some 3000 operators
};

}  // namespace ebb::torch_adapter
