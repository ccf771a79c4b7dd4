// Graph: the launches that are not over: which must wait for which, which may run now, and which may not run at all
// because they read what a failed launch should have written. A deterministic state machine without thread or lock.
//
// A launch comes after the one before it in its stream, after those that it has a hazard with, and after those that it
// was told to wait for. Of those that may run, the one launched first is taken first; several run at a time only if
// what they use fits in memory together.
//
// Owned by the device, under its lock. Invariant: a launch is ready exactly if all that it comes after are over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "stream/byte_ranges.h"
#include "stream/hazards.h"

namespace ebb {

struct Failure;  // device.h; the graph only carries it

class Graph {
 public:
  using Number = std::uint64_t;  // from 1, in the order of launching
  using FailurePtr = std::shared_ptr<const Failure>;

  // `bytes_max`: how much the launches that run at a time may use; one may always run.
  explicit Graph(std::uint64_t bytes_max) : bytes_max_(bytes_max) {}

  // `after`: launches to wait for; those that are over are allowed.
  Number add(std::uint64_t stream, std::vector<UsedBytes> uses, std::span<const Number> after);
  // The launch that is to run next, which then runs until finish(); 0: none for now.
  Number take();
  // Why a launch that has been taken must not run; null: it may.
  FailurePtr poison_of(Number launch) const;
  // A launch that has been taken is over; `failure` is null if it did what it should. Returns how many became ready.
  std::size_t finish(Number launch, FailurePtr failure);
  // What failed launches of this stream should have written counts as written for launches added from now on.
  void forgive(std::uint64_t stream);

  bool over(Number launch) const { return !nodes_.contains(launch); }
  // The launch added last to this stream, or 0 if it is over.
  Number last_of(std::uint64_t stream) const;
  bool empty() const { return nodes_.empty(); }
  bool has_ready() const { return !ready_.empty(); }
  bool has_poison() const { return !poison_.empty(); }
  bool has_hazards() const { return !hazards_.empty(); }

 private:
  struct Node {
    std::uint64_t stream = 0;
    std::uint64_t bytes = 0;
    std::uint32_t waits_for = 0;
    std::vector<Number> followers;
    std::vector<UsedBytes> uses;
  };
  struct Poison {
    std::uint64_t stream = 0;
    FailurePtr failure;
    Number until = kNever;  // launches from this on may read it nevertheless
  };
  static constexpr Number kNever = ~Number{0};

  void drop_forgiven();

  std::uint64_t bytes_max_;
  std::uint64_t running_bytes_ = 0;
  std::uint32_t running_ = 0;
  Number next_ = 1;
  std::map<Number, Node> nodes_;
  std::set<Number> ready_;
  std::map<std::uint64_t, Number> last_;  // by stream
  Hazards hazards_;
  ByteRanges<Poison> poison_;
  bool forgiven_ = false;  // some of it
};

}  // namespace ebb
