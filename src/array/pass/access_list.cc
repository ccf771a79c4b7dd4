// What passes declare.
#include "array/pass/access_list.h"

#include <algorithm>

namespace ebb::array {
namespace {

// Elements of each array in a piece of a long pass that is announced, and hence fetched, as a whole: 8 MiB of f64.
constexpr std::int64_t kPieceElements = static_cast<std::int64_t>(kMiB);

}  // namespace

void AccessList::add(const Storage* storage, const std::byte* data, const ShapeInfo& shape, bool linear, bool written) {
  if (storage == nullptr || shape.count == 0) return;
  const auto element = static_cast<std::int64_t>(size_of(shape.dtype));
  items_.push_back(
      {storage, data + shape.lowest * element, (shape.highest - shape.lowest + 1) * element, element, linear, written});
}

PassAccesses AccessList::announced() const {
  PassAccesses pass;
  pass.op = op_;
  pass.label = label_;
  for (const Item& item : items_) {
    const std::shared_ptr<Runtime>& runtime = item.storage->runtime;
    if (runtime == nullptr) continue;
    if (pass.runtime == nullptr) pass.runtime = runtime;
    if (pass.runtime != runtime || !runtime->manages(item.storage->data)) continue;
    const std::int64_t piece = item.linear ? kPieceElements * item.element : item.bytes;
    std::uint32_t group = 0;
    for (std::int64_t at = 0; at < item.bytes; at += piece, ++group) {
      pass.accesses.push_back({item.low + at, static_cast<std::size_t>(std::min(piece, item.bytes - at)),
                               item.storage->data, group, item.written});
    }
  }
  std::stable_sort(pass.accesses.begin(), pass.accesses.end(),
                   [](const Access& a, const Access& b) { return a.group < b.group; });
  return pass;
}

std::vector<Use> AccessList::uses(std::int64_t first, std::int64_t end) const {
  std::vector<Use> found;
  for (const Item& item : items_) {
    const std::int64_t from = item.linear ? first * item.element : 0;
    const std::int64_t to = item.linear ? std::min(end * item.element, item.bytes) : item.bytes;
    found.push_back({item.written ? Use::Kind::kOverwrites : Use::Kind::kReads, item.low + from,
                     static_cast<std::size_t>(to - from), item.storage->data});
  }
  return found;
}

std::int64_t AccessList::shared_bytes() const {
  std::int64_t bytes = 0;
  for (const Item& item : items_) bytes += item.linear ? 0 : item.bytes;
  return bytes;
}

}  // namespace ebb::array
