// OpenedFiles: the SourceFiles of Linux. A file's number is its descriptor.
#pragma once

#include <sys/types.h>

#include <vector>

#include "port/source_files.h"

namespace ebb {

class OpenedFiles final : public SourceFiles {
 public:
  OpenedFiles() = default;
  OpenedFiles(const OpenedFiles&) = delete;
  ~OpenedFiles() override;

  Status open(const std::string& path, SourceFile& source, std::string& reason) override;
  Status open(int descriptor, SourceFile& source, std::string& reason) override;
  void close(std::int32_t file) override;
  const char* name(std::int32_t file) const override;
  bool serve(FileMapper* mapper) override;

 private:
  struct Opened {
    int fd = -1;
    dev_t device = 0;
    ino_t inode = 0;
    off_t bytes = 0;
    timespec changed{};
    bool direct = false;
    bool in_memory = false;
    std::string name;
  };
  static const char* look(const std::string& path, Opened& file);
  const Opened* find(const Opened& file) const;
  Status open(const std::string& path, const std::string& name, SourceFile& source, std::string& reason);

  std::vector<Opened> files_;
  bool serves_ = false;
};

}  // namespace ebb
