// ProcessWatch: looks from outside for processes of a job that use memory and have not joined it: those that no library
// or hook of ours reaches, and those forked from one that has joined, whose memory is outside the budget.
//
// It goes by /proc alone: what belongs to the job has its socket's name in its environment. One thread, a look every
// second or so; a process is told of once, and is no outsider any more when it joins later.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ebb::cli {

// What the kernel calls a process; empty if it has ended.
std::string process_name(pid_t pid);

struct Outsider {
  pid_t pid = 0;
  std::string name;
  std::string why;              // in words for the user
  bool forked = false;          // from one that has joined
  std::uint64_t own_bytes = 0;  // of memory that is no file's, the most that was seen
};

class ProcessWatch {
 public:
  explicit ProcessWatch(std::string socket) : mark_("EBB_JOB=" + std::move(socket)) {}

  // `members`: who has joined and lives. Returns those that are new.
  std::vector<Outsider> look(const std::vector<pid_t>& members);

  const std::map<pid_t, Outsider>& found() const { return found_; }

 private:
  struct Known {
    std::uint64_t started = 0;  // tells one process from a later one of this number
    bool ours = false;
    bool torch = false;       // in it
    int looks = 0;            // asleep with torch in it, or as a fork, which may be about to become another program
    std::uint64_t ticks = 0;  // that it had computed at the first look with torch in it
  };
  struct Seen {
    bool forked = false;
    bool sleeps = false;
    std::uint64_t ticks = 0;
  };

  Known& know(pid_t pid, std::uint64_t started);
  void judge(pid_t pid, Known& known, const Seen& seen, std::vector<Outsider>& news);

  const std::string mark_;
  std::map<pid_t, Known> known_;
  std::map<pid_t, Outsider> found_;
};

}  // namespace ebb::cli
