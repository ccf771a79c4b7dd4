// See parts.h.
#include "plan/parts.h"

#include <algorithm>

namespace ebb {

Cuts::Range Cuts::of(const Part& part) const {
  if (part.blocks == 0 || count() == 1) return {0, count()};
  const auto first = std::upper_bound(cuts_.begin(), cuts_.end(), part.first);
  const auto end = std::lower_bound(first, cuts_.end(), part.first + part.blocks);
  return {static_cast<std::uint32_t>(first - cuts_.begin() - 1), static_cast<std::uint32_t>(end - cuts_.begin())};
}

std::uint64_t Cuts::bytes(std::uint64_t of_tensor, std::uint32_t piece) const {
  if (count() == 1) return of_tensor;
  const std::uint64_t blocks = cuts_.back();
  const auto until = [&](std::uint64_t block) {
    return of_tensor / blocks * block + of_tensor % blocks * block / blocks;
  };
  return until(cuts_[piece + 1]) - until(cuts_[piece]);
}

void Parts::add(const Part& part) {
  blocks_ = std::max(blocks_, part.first + part.blocks);
  if (part.blocks == 0 || too_many()) return;
  const auto before = [](const Part& left, const Part& right) {
    return left.first != right.first ? left.first < right.first : left.blocks < right.blocks;
  };
  const auto at = std::lower_bound(parts_.begin(), parts_.end(), part, before);
  if (at != parts_.end() && !before(part, *at)) return;
  parts_.insert(at, part);
  const auto by_first = [](const Part& left, const Part& right) { return left.first < right.first; };
  const auto alike = std::equal_range(parts_.begin(), parts_.end(), part, by_first);
  nested_ = std::max(nested_, static_cast<std::uint32_t>(alike.second - alike.first));
}

Cuts Parts::pieces() const {
  std::vector<std::uint32_t> cuts{0, blocks_};
  for (const Part& part : parts_) {
    if (blocks_ < kBlocksMin || too_many()) break;
    if (part.blocks > blocks_ / 2) continue;
    cuts.push_back(part.first);
    cuts.push_back(part.first + part.blocks);
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  if (cuts.size() == 1) cuts.push_back(1);  // of a tensor of no blocks, too, there is one piece
  return Cuts(std::move(cuts));
}

}  // namespace ebb
