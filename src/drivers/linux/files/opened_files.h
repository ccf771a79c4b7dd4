// OpenedFiles: the SourceFiles of Linux. A file's number is its descriptor. Whether it has changed is told by its
// ctime, which every change sets and no program can set back, where the file system keeps it itself (not a server
// elsewhere).
#pragma once

#include <sys/types.h>

#include <mutex>
#include <vector>

#include "calls/table.h"
#include "port/source_files.h"

namespace ebb {

class OpenedFiles final : public SourceFiles {
 public:
  OpenedFiles();
  OpenedFiles(const OpenedFiles&) = delete;
  ~OpenedFiles() override;

  Status open(const std::string& path, SourceFile& source, std::string& reason) override;
  Status open(int descriptor, SourceFile& source, std::string& reason) override;
  void close(std::int32_t file) override;
  bool same_as_opened(std::int32_t file) const override;
  bool changed(std::int32_t file) const override;
  std::int32_t take_changed() override;
  std::string identity(std::int32_t file) const override;
  const char* name(std::int32_t file) const override;
  bool serve(FileMapper* mapper) override;
  SharedMemory shared_memory() const override;

 private:
  struct Opened {
    int fd = -1;
    dev_t device = 0;
    ino_t inode = 0;
    off_t bytes = 0;
    timespec changed{};
    timespec modified{};
    timespec seen{};  // likewise, as take_changed() has seen it; under the runtime's lock alone
    bool direct = false;
    bool in_memory = false;
    bool local = false;  // no server is asked about it
    bool dated = false;  // `changed` tells whether it has changed
    std::string name;
  };
  static const char* look(const std::string& path, Opened& file);
  const Opened* find(const Opened& file) const;
  Status open(const std::string& path, const std::string& name, SourceFile& source, std::string& reason);

  // Changed with both held, the runtime's lock and this one.
  mutable std::mutex mutex_;
  std::vector<Opened> files_;
  bool serves_ = false;
  const calls::SharedMemory shared_memory_;  // null: nobody counts
};

}  // namespace ebb
