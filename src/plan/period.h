// Period: finds where iterations begin in a program that does not say so: an inference loop has no optimizer step. It
// is told every launch and looks for a distance at which launches repeat, the same operators on the same long-lived
// tensors, for a whole such distance. From then on every iteration of that length ends where the next one begins.
//
// Layers repeat too, but on other weights: a launch is known by its operator and by those of its tensors that are older
// than the observation, and what touches no such tensor at all is no iteration. What is long-lived shows only in time,
// so the program is observed again whenever its launches have doubled, and a longer period than the one found before
// takes its place.
//
// What is lasting (policy.h), as the weights of a mapped checkpoint, is known to be long-lived from the beginning:
// where the launches on such tensors are the same again for a while, an iteration has begun. So the second token that a
// language model makes is known to be like the first, although the first one's prompt was longer. Of several models
// that take turns each is looked at, and the longest that is repeated is the iteration; what the others do is part of
// one.
//
// Owned by the core. Memory is bounded by kLaunchesMax; deterministic.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "plan/policy.h"
#include "plan/recording.h"

namespace ebb {

class Period {
 public:
  static constexpr std::uint32_t kLaunchesMax = 1u << 16;  // of one iteration
  static constexpr std::uint32_t kLaunchesMin = 16;        // a shorter one is not worth a plan

  // A launch begins; `serial` is that of the allocation made last. Whether an iteration ends before it.
  bool begins(std::uint64_t op, std::span<const Touch> touches, std::uint64_t serial);
  // The iteration of an earlier run of the program begins with the launch that is told next.
  void foretell(const Recording& iteration);
  // Launches of an iteration, or those of them on lasting tensors; 0: none found.
  std::uint32_t length() const { return static_cast<std::uint32_t>(found_.launches.size()); }

 private:
  // What is known of one period, or still looked for.
  struct Observation {
    std::uint64_t old_below = 0;                    // serials below are of long-lived tensors
    std::vector<std::uint64_t> seen;                // signatures of the launches since it began
    std::map<std::uint64_t, std::uint32_t> latest;  // where a signature was seen last
    std::uint32_t distance = 0;                     // between the launches now and those that they repeat
    std::uint32_t repeated = 0;                     // launches in a row at that distance
    std::uint32_t young = 0;                        // launches in a row of tensors that are not long-lived
    bool found() const { return distance >= kLaunchesMin && repeated >= distance && young < distance; }
    void add(std::uint64_t signature, bool old);
    std::vector<std::uint64_t> last_period() const { return {seen.end() - distance, seen.end()}; }
  };
  // The iteration found: the signatures of its launches, and where the program is in it.
  struct Found {
    std::uint64_t old_below = 0;
    bool lasting = false;  // of launches on lasting tensors alone
    std::uint64_t began = 0,
                  apart = 0;  // the launch that the latest iteration began with, and how many since the one before
    std::vector<std::uint64_t> launches;
    std::uint32_t position = 0;
    std::uint32_t misses = 0;
  };

  bool follow(std::uint64_t signature);
  void look_for_lasting(std::uint64_t signature);

  Observation observation_;
  Observation lasting_;  // of launches on lasting tensors
  Found found_;
  bool observing_ = true;
  std::uint64_t launches_ = 0;  // of the program
};

}  // namespace ebb
