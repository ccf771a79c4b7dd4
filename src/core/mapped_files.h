// MappedFiles: whole blocks of addresses for files that the program has mapped. Their content is in the file until it
// is touched; what the program writes is its own, and goes to flash. They take no place beside the file until then.
//
// To a policy a mapping is not one allocation but as many as launches have used parts of it: the tensors of a
// checkpoint. What is used for the first time becomes a part, with a lasting serial number (plan/policy.h).
//
// Owned by Core, under the runtime's lock. map() and part_of() allocate, and belong to the program's threads.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "core/budget.h"
#include "core/file_pass.h"
#include "core/state.h"
#include "ebb/status.h"
#include "port/file_place.h"

namespace ebb {

class MappedFiles {
 public:
  MappedFiles(CoreState& state, Budget& budget) : state_(state), budget_(budget) {}

  // `bytes` of a file from `offset` on. `first`: the offset in the space where they are. kNoMemory: no addresses, or no
  // memory for the tables, for so much; kBusy: something has to leave first, or is pinned; try again. `shared`: the
  // program asked for a mapping that it may not write to.
  Status map(std::int32_t file, std::uint64_t offset, std::uint64_t bytes, std::uint64_t& first, bool shared = false);
  // The program gives up some blocks of a mapping, each at most once; the last one ends it.
  void unmap(BlockRange blocks);
  // The blocks of the mapping that the byte lies in; none if it lies in none.
  BlockRange find(std::uint64_t offset) const;

  // What is mapped from there on.
  struct Kinds {
    bool files = false;   // private ones
    bool shared = false;  // shared ones, only to be read
    bool other = false;   // what is no file
  };
  Kinds kinds(std::uint64_t offset, std::uint64_t bytes) const;
  // Where the file has this block; none if no file is mapped there.
  FilePlace place_of(BlockIndex block) const;
  // What the program has written to a block is dropped: it is as the file has it, now. False: not at this moment.
  bool renew(BlockIndex block);

  // The content of a file has changed. What is in memory of shared mappings is read anew when it is touched next, once
  // renew_stale() could let go of it: true, if it has of some. Neither allocates.
  void note_changed(std::int32_t file);
  bool renew_stale();

  // What these bytes are to the policy; none if they lie in no mapping.
  struct Part {
    std::uint64_t serial = 0;
    std::uint64_t bytes = 0;
  };
  const Part* part_of(std::uint64_t offset, std::uint64_t bytes);

  // Where each part lies in its file, by serial number.
  std::map<std::uint64_t, FilePart> parts_in_files() const;
  // Whether what a launch touches is this part.
  bool is_part(const Touch& touch, const FilePart& part) const;
  // Where these bytes of a file are mapped, as an offset in the space: where launches have used some of it, or else
  // where it was mapped last. kNowhere.
  static constexpr std::uint64_t kNowhere = ~std::uint64_t{0};
  std::uint64_t find(const FilePart& part) const;

 private:
  struct Mapping {
    std::uint64_t heap_offset = 0;
    std::uint64_t serial = 0;  // of all of it
    BlockRange blocks;
    std::int32_t file = FilePlace::kNoFile;
    std::uint64_t offset = 0;  // in the file
    std::uint64_t bytes = 0;
    bool shared = false;
    std::uint32_t mapped = 0;                                       // of blocks
    std::map<std::pair<std::uint64_t, std::uint64_t>, Part> parts;  // by offset in the space, and bytes
  };
  const Mapping* mapping_at(std::uint64_t offset) const;
  void forget_stale(BlockRange blocks);
  FilePlace place_in(const Mapping& mapping, BlockIndex block) const;
  Mapping* mapping_at(std::uint64_t offset) {
    return const_cast<Mapping*>(static_cast<const MappedFiles*>(this)->mapping_at(offset));
  }

  CoreState& state_;
  Budget& budget_;
  std::map<std::uint64_t, Mapping> mappings_;  // by offset of the first block
  std::vector<BlockIndex> stale_;              // room for all that is mapped
  std::uint64_t serial_ = kLastingSerials;
};

}  // namespace ebb
