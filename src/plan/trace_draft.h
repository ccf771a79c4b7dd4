// TraceDraft: a Trace in the making, told event by event what a program does. Tensors are named by serial numbers, as a
// policy is told of them.
//
// A tensor that was there before the first event and has not been freed since is persistent; every other one is born or
// dies here. One that is used in parts is several, its pieces (parts.h). What is allocated after a launch was told
// counts as made by that launch, unless an iteration ended since.
//
// Owned by a Recorder. Invariant: what finish() returns keeps check() of plan/trace.h.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "plan/parts.h"
#include "plan/trace.h"

namespace ebb {

class TraceDraft {
 public:
  using Names = std::map<std::uint64_t, std::string>;  // of operators

  void allocate(std::uint64_t serial, std::uint64_t bytes);
  void launch(std::uint64_t op);
  // The launch told last touches this part of a tensor of so many bytes, and ran for so long; what is told more than
  // once is summed up.
  void use(std::uint64_t serial, std::uint64_t bytes, const Part& part, bool written);
  void run(std::uint64_t ns);
  // Nothing if no event was about this tensor: its end is no business of this trace.
  void free(std::uint64_t serial);
  // Nothing if the iteration has no launches.
  void end_iteration();

  std::uint32_t iterations() const { return static_cast<std::uint32_t>(marks_.size()); }
  // Too long a trace to go on with.
  bool full() const { return launches_.size() >= kLaunchesMax; }

  // One iteration that is repeated: everything up to now.
  Trace finish(const Names& names) const;
  // The iterations that have ended, as they followed one another.
  Trace finish_sequence(const Names& names) const;

 private:
  static constexpr std::size_t kLaunchesMax = std::size_t{1} << 22;

  struct Tensor {
    std::uint64_t serial = 0;
    std::uint64_t bytes = 0;
    Trace::LaunchIndex born = Trace::kNone;  // kNone: before the first event
    Trace::LaunchIndex freed = Trace::kNone;
    Parts parts;
  };
  struct Use {
    std::uint32_t tensor = 0;
    Part part;
    bool operator==(const Use&) const = default;
  };
  struct Launch {
    std::uint64_t op = 0;
    std::uint64_t ns = 0;
    std::vector<Use> reads, writes;
  };
  struct Mark {
    std::size_t launches = 0, tensors = 0;
  };

  std::uint32_t find_or_add(std::uint64_t serial, std::uint64_t bytes);
  Trace finish(const Names& names, Mark end) const;
  // The trace's tensors: pieces of those here, one after the other.
  struct Piece {
    Cuts pieces;
    Trace::TensorIndex first = 0;
  };
  std::vector<Piece> add_tensors(Trace& trace, Mark end) const;

  std::vector<Tensor> tensors_;  // in the order in which they appear
  std::map<std::uint64_t, std::uint32_t> index_;
  std::vector<Launch> launches_;
  std::vector<Mark> marks_;  // the ends of iterations
};

}  // namespace ebb
