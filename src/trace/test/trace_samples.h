// What the tests and the fuzzer of trace/ share: random valid traces, equality, and files that remove themselves.
#pragma once

#include <string>

#include "base/rng.h"
#include "plan/trace.h"

namespace ebb {

// Keeps check(), with operators numbered in the order in which they are first launched, as a reader numbers them.
Trace random_trace(Rng& rng);

bool same(const Trace& left, const Trace& right);

class TemporaryDirectory {
 public:
  TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory();
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string read_file(const std::string& path);
void write_file(const std::string& path, const std::string& bytes);

}  // namespace ebb
