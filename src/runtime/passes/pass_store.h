// PassStore: iterations over mapped files, one JSON file each, named after the mapped file of which it uses most. Kept
// in a directory of the user's (mode 0700), below the cache of everything else; the oldest give way beyond kFilesMax.
//
// Belongs to one runtime. All of it does I/O and allocates; errors mean that nothing is remembered, and are not told.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/file_pass.h"

namespace ebb {

struct StoredPass {
  std::uint64_t block_bytes = 0;
  std::vector<std::string> files;  // identities (port/source_files.h), by the numbers in `pass`
  FilePass pass;
};

// What a file of the store says; none if it is damaged, of another version, or not to be believed.
std::optional<StoredPass> parse_pass(const std::string& text);

class PassStore {
 public:
  static constexpr std::size_t kFilesMax = 64;
  static constexpr std::size_t kBytesMax = std::size_t{16} << 20;  // of one

  // Empty: nothing is remembered.
  explicit PassStore(std::string directory) : directory_(std::move(directory)) {}

  bool enabled() const { return !directory_.empty(); }
  // The iteration over mostly this file; none if none is known, or it is not to be believed.
  std::optional<StoredPass> load(const std::string& identity) const;
  void save(const StoredPass& stored) const;

 private:
  std::string path_of(const std::string& identity) const { return directory_ + "/" + identity + ".json"; }
  void make_room() const;

  std::string directory_;
};

// $XDG_CACHE_HOME/ebbtide/passes, else below ~/.cache; empty: there is no home.
std::string default_pass_directory();

}  // namespace ebb
