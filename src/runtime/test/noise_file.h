// NoiseFile: a file of noise, for tests that map one.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/rng.h"

namespace ebb {

class NoiseFile {
 public:
  explicit NoiseFile(std::uint64_t bytes, const std::string& directory = ::testing::TempDir())
      : path_(directory + "/ebb-map-XXXXXX"), content_(bytes) {
    const int fd = ::mkstemp(path_.data());
    EBB_CHECK(fd >= 0);
    Rng rng(bytes);
    for (std::byte& byte : content_) byte = static_cast<std::byte>(rng.next());
    EBB_CHECK_EQ(static_cast<std::size_t>(::write(fd, content_.data(), bytes)), bytes);
    ::close(fd);
  }
  ~NoiseFile() { ::unlink(path_.c_str()); }
  NoiseFile(const NoiseFile&) = delete;
  NoiseFile& operator=(const NoiseFile&) = delete;

  const std::string& path() const { return path_; }
  std::span<const std::byte> content() const { return content_; }
  bool is_as_made() const {
    std::ifstream file(path_, std::ios::binary);
    std::vector<char> now(content_.size());
    file.read(now.data(), static_cast<std::streamsize>(now.size()));
    return file.gcount() == static_cast<std::streamsize>(now.size()) && file.peek() == EOF &&
           std::memcmp(now.data(), content_.data(), now.size()) == 0;
  }

 private:
  std::string path_;
  std::vector<std::byte> content_;
};

}  // namespace ebb
