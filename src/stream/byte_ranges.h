// ByteRanges: a value for each of some disjoint ranges of addresses. Ranges are cut where a new one begins or ends.
//
// Pure data, owned by hazards and poison. Invariant: ranges are disjoint and not empty.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>

namespace ebb {

template <typename T>
class ByteRanges {
 public:
  struct Piece {
    std::uintptr_t end = 0;
    T value;
  };
  using Map = std::map<std::uintptr_t, Piece>;

  // Makes pieces that cover [begin, end) exactly, new ones with a default value, and calls visit(value) for each.
  template <typename F>
  void cover(std::uintptr_t begin, std::uintptr_t end, F&& visit) {
    if (begin >= end) return;
    cut(begin);
    cut(end);
    std::uintptr_t at = begin;
    for (auto i = pieces_.lower_bound(begin); at < end; ++i) {
      if (i == pieces_.end() || i->first > at) {
        const std::uintptr_t gap_end = i == pieces_.end() ? end : std::min(end, i->first);
        i = pieces_.emplace_hint(i, at, Piece{gap_end, T{}});
      }
      at = i->second.end;
      visit(i->second.value);
    }
  }
  // Calls visit(value) for each piece that lies in [begin, end) with a part at least, until it returns true.
  template <typename F>
  bool find(std::uintptr_t begin, std::uintptr_t end, F&& visit) const {
    for (auto i = first_in(begin); i != pieces_.end() && i->first < end; ++i) {
      if (visit(i->second.value)) return true;
    }
    return false;
  }
  // Removes the pieces in [begin, end), cut at both, for which drop(value) is true.
  template <typename F>
  void erase_if(std::uintptr_t begin, std::uintptr_t end, F&& drop) {
    if (begin >= end) return;
    cut(begin);
    cut(end);
    for (auto i = pieces_.lower_bound(begin); i != pieces_.end() && i->first < end;) {
      i = drop(i->second.value) ? pieces_.erase(i) : std::next(i);
    }
  }
  template <typename F>
  void for_each(F&& visit) {
    for (auto& [begin, piece] : pieces_) visit(piece.value);
  }
  template <typename F>
  void erase_if(F&& drop) {
    std::erase_if(pieces_, [&](auto& piece) { return drop(piece.second.value); });
  }

  bool empty() const { return pieces_.empty(); }
  std::size_t size() const { return pieces_.size(); }

 private:
  typename Map::const_iterator first_in(std::uintptr_t begin) const {
    auto i = pieces_.upper_bound(begin);
    if (i != pieces_.begin() && std::prev(i)->second.end > begin) --i;
    return i;
  }
  void cut(std::uintptr_t at) {
    auto i = pieces_.upper_bound(at);
    if (i == pieces_.begin()) return;
    --i;
    if (i->first == at || i->second.end <= at) return;
    pieces_.emplace_hint(std::next(i), at, i->second);
    i->second.end = at;
  }

  Map pieces_;
};

}  // namespace ebb
