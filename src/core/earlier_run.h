// EarlierRun: what an earlier run of the program tells about this one: the iteration that it made of mapped files. When
// this run is seen in it, at two launches in a row, the iteration is given to the policy as a recording of what is
// mapped where now, so that the first iteration is planned as later ones are by the one before. It begins where the
// program is: iterations that are found by their repetition begin somewhere in them.
//
// Owned by Launches, under the runtime's lock. All of it allocates.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "core/file_pass.h"
#include "core/mapped_files.h"
#include "core/state.h"
#include "plan/recording.h"

namespace ebb {

class EarlierRun {
 public:
  EarlierRun(CoreState& state, MappedFiles& files) : state_(state), files_(files) {}

  // Its files are mapped, by the numbers that they have in this run.
  void expect(FilePass pass);
  void forget() { pass_.reset(); }
  // If the program has come to be in the iteration that is expected: that iteration, from this launch on. Once.
  std::optional<Recording> begins(std::uint64_t op, std::span<const Touch> touches);
  // What another run may be told of an iteration of this one.
  FilePass describe(const Recording& iteration) const;

 private:
  static constexpr std::uint32_t kLaunchesMax = 8192;  // of other ones, until nothing is expected any more

  std::vector<std::uint32_t> places_of(std::uint64_t op, std::span<const Touch> touches) const;
  std::optional<Recording> resolve(std::uint32_t first);

  CoreState& state_;
  MappedFiles& files_;
  std::optional<FilePass> pass_;
  std::multimap<std::uint64_t, std::uint32_t> by_op_;  // launches of it
  std::vector<std::uint32_t> before_;                  // which of them the launch before may have been
  std::uint32_t others_ = 0;
};

}  // namespace ebb
