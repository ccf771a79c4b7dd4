// See graph.h.
#include "stream/graph.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace ebb {

Graph::Number Graph::add(std::uint64_t stream, std::vector<UsedBytes> uses, std::span<const Number> after) {
  const Number launch = next_++;
  std::vector<Number> before(after.begin(), after.end());
  before.push_back(last_of(stream));
  hazards_.add(launch, uses, before);
  std::sort(before.begin(), before.end());
  before.erase(std::unique(before.begin(), before.end()), before.end());

  Node node;
  node.stream = stream;
  for (const UsedBytes& use : uses) node.bytes += use.end - use.begin;
  node.uses = std::move(uses);
  for (const Number other : before) {
    const auto found = nodes_.find(other);
    if (found == nodes_.end()) continue;
    found->second.followers.push_back(launch);
    ++node.waits_for;
  }
  if (node.waits_for == 0) ready_.insert(launch);
  last_[stream] = launch;
  nodes_.emplace(launch, std::move(node));
  return launch;
}

Graph::Number Graph::last_of(std::uint64_t stream) const {
  const auto found = last_.find(stream);
  return found == last_.end() ? 0 : found->second;
}

Graph::Number Graph::take() {
  if (ready_.empty()) return 0;
  const Number launch = *ready_.begin();
  const std::uint64_t bytes = nodes_.at(launch).bytes;
  if (running_ > 0 && (bytes > bytes_max_ || running_bytes_ > bytes_max_ - bytes)) return 0;
  ready_.erase(ready_.begin());
  running_bytes_ += bytes;
  ++running_;
  return launch;
}

Graph::FailurePtr Graph::poison_of(Number launch) const {
  FailurePtr failure;
  if (poison_.empty()) return failure;
  for (const UsedBytes& use : nodes_.at(launch).uses) {
    if (!use.reads) continue;
    const bool found = poison_.find(use.begin, use.end, [&](const Poison& poison) {
      if (launch >= poison.until) return false;
      failure = poison.failure;
      return true;
    });
    if (found) break;
  }
  return failure;
}

std::size_t Graph::finish(Number launch, FailurePtr failure) {
  const auto found = nodes_.find(launch);
  EBB_CHECK(found != nodes_.end());
  const Node node = std::move(found->second);
  nodes_.erase(found);
  running_bytes_ -= node.bytes;
  --running_;
  hazards_.remove(launch, node.uses);
  if (const auto last = last_.find(node.stream); last->second == launch) last_.erase(last);
  for (const UsedBytes& use : node.uses) {
    if (failure != nullptr && use.writes) {
      poison_.cover(use.begin, use.end, [&](Poison& poison) { poison = {node.stream, failure, kNever}; });
    } else if (failure == nullptr && use.whole && !poison_.empty()) {
      poison_.erase_if(use.begin, use.end, [](const Poison&) { return true; });
    }
  }
  drop_forgiven();
  std::size_t became_ready = 0;
  for (const Number follower : node.followers) {
    if (--nodes_.at(follower).waits_for > 0) continue;
    ready_.insert(follower);
    ++became_ready;
  }
  return became_ready;
}

void Graph::forgive(std::uint64_t stream) {
  poison_.for_each([&](Poison& poison) {
    if (poison.stream != stream || poison.until != kNever) return;
    poison.until = next_;
    forgiven_ = true;
  });
  drop_forgiven();
}

// What no launch that is not over may stumble over any more.
void Graph::drop_forgiven() {
  if (!forgiven_) return;
  const Number oldest = nodes_.empty() ? next_ : nodes_.begin()->first;
  forgiven_ = false;
  poison_.erase_if([&](const Poison& poison) {
    forgiven_ = forgiven_ || (poison.until != kNever && poison.until > oldest);
    return poison.until <= oldest;
  });
}

}  // namespace ebb
