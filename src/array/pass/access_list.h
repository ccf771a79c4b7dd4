// AccessList: what a pass reads and writes, for whoever has to know before it runs: the Runtime in pieces, for memory
// that the pass goes through in order, or a stream to the byte.
//
// A value, owned by its pass; the memory must outlive it.
#pragma once

#include <vector>

#include "array/graph/storage.h"
#include "array/pass/executor.h"
#include "array/shape/shape_info.h"
#include "ebb/use.h"

namespace ebb::array {

class AccessList {
 public:
  AccessList(std::uint64_t op, const char* label) : op_(op | 1), label_(label) {}
  // `linear`: element i is reached after i elements of the pass, and by no other.
  void add(const Storage* storage, const std::byte* data, const ShapeInfo& shape, bool linear, bool written);

  const char* label() const { return label_; }
  // Of the whole pass, for Runtime::announce().
  PassAccesses announced() const;
  // Of elements [first, end), for a launch. What is written is overwritten.
  std::vector<Use> uses(std::int64_t first, std::int64_t end) const;
  // Bytes that every part of the pass uses, however small it is.
  std::int64_t shared_bytes() const;

 private:
  struct Item {
    const Storage* storage;
    const std::byte* low;
    std::int64_t bytes, element;
    bool linear, written;
  };

  std::uint64_t op_;
  const char* label_;
  std::vector<Item> items_;
};

}  // namespace ebb::array
