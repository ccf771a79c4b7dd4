// SourceFiles: the port to files that the program maps: opened once more, to be read past the page cache where that can
// be. A file has one number as long as it is open, however often it is opened; requests of RawFlash name it.
//
// Threads: open() and close() any, under the runtime's lock; same_as_opened() and changed() any; serve() before and
// after all others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "ebb/status.h"
#include "port/file_place.h"

namespace ebb {

struct SourceFile {
  std::int32_t file = FilePlace::kNoFile;
  std::uint64_t bytes = 0;
  bool direct = false;     // what is read of it leaves nothing in the page cache
  bool in_memory = false;  // it lies in a RAM disk
};

// What serves the mappings that the program makes by itself, with mmap(). Any thread.
class FileMapper {
 public:
  struct Kinds {
    bool files = false, shared = false, other = false;  // as in MappedFiles
  };
  // Null: it is left to the kernel. `shared`: only to be read.
  virtual std::byte* map_for_program(int descriptor, std::uint64_t offset, std::uint64_t bytes,
                                     bool shared) noexcept = 0;
  // What is mapped there.
  virtual Kinds kinds_for_program(std::span<const std::byte> memory) noexcept = 0;
  // What was written there is dropped: a file is as it is on disk, all else zeros. 0, or an errno.
  virtual int discard_for_program(std::span<std::byte> memory) noexcept = 0;
  // False: it is no mapping of a file.
  virtual bool unmap_for_program(std::span<std::byte> memory) noexcept = 0;

 protected:
  ~FileMapper() = default;
};

class SourceFiles {
 public:
  virtual ~SourceFiles() = default;

  // kInvalid with the reason: no regular file that can be read; kNoMemory: too many are open; kBusy: somebody has it
  // open for writing, and what is in it is still to change. By a descriptor it is the same file, whatever has become of
  // its name.
  virtual Status open(const std::string& path, SourceFile& source, std::string& reason) = 0;
  virtual Status open(int descriptor, SourceFile& source, std::string& reason) = 0;
  virtual void close(std::int32_t file) = 0;
  // Whether nobody can have changed the file since it was opened. False: somebody may have, or nobody can tell.
  virtual bool same_as_opened(std::int32_t file) const = 0;
  // Whether its content is known to have changed since then: not its name, or who may read it. Where its time was set
  // back, it counts as not.
  virtual bool changed(std::int32_t file) const = 0;
  // One whose content may have changed since it was opened, or named here; kNoFile: there is none more, or nobody
  // tells. It costs a system call a file, and none where that could take long; never allocates.
  virtual std::int32_t take_changed() = 0;
  // Names it, as it is now, in other processes, too: the same file with other content has another one.
  virtual std::string identity(std::int32_t file) const = 0;
  // For messages; never allocates.
  virtual const char* name(std::int32_t file) const = 0;

  // The program's own mappings go to `mapper` from now on, or, null, to the kernel again. False: its calls cannot be
  // seen here.
  virtual bool serve(FileMapper* mapper) = 0;
  // Memory that the program has mapped of files that are nothing but memory, and shares with whoever has them, too.
  struct SharedMemory {
    std::uint64_t bytes = 0;
    std::uint64_t most_bytes = 0;  // that it ever was
  };
  virtual SharedMemory shared_memory() const { return {}; }
};

}  // namespace ebb
