// Redirection: stdout and stderr of this process lead into a file for as long as it lives, so that a child started
// meanwhile writes there. Main thread; nothing of our own may be printed meanwhile, but to terminal().
#pragma once

#include <cstddef>
#include <string>

namespace ebb::cli {

class Redirection {
 public:
  enum class What { kOutput, kOutputAndErrors };

  // Throws Error if the file cannot be made.
  Redirection(const std::string& file, What what);
  ~Redirection();
  Redirection(const Redirection&) = delete;
  Redirection& operator=(const Redirection&) = delete;

  // The former stderr, open in children too; -1 unless it is a terminal.
  int terminal() const { return terminal_; }

 private:
  int output_ = -1;  // the former ones
  int errors_ = -1;
  int terminal_ = -1;
};

// The last lines of a file, each indented; empty if there are none.
std::string tail_of(const std::string& file, std::size_t lines_max);

}  // namespace ebb::cli
