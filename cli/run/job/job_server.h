// JobServer: the broker of a job with its socket: accepts who joins, hears them, delivers what is decided, and notices
// who dies. What is decided is the broker's (src/job).
//
// One thread of its own, from construction to destruction. Only processes of this user are heard, and a packet that is
// no JobMessage ends its connection. Invariant: never waits for a member.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "drivers/linux/system/system_files.h"
#include "job/broker.h"
#include "job/message.h"
#include "run/job/auto_memory.h"
#include "run/job/process_watch.h"

namespace ebb::cli {

// One that has joined, whether it is still there or not.
struct JobProcess {
  pid_t pid = 0;
  std::string name;
  std::int32_t rank = -1;
  bool alive = true;
  bool used_memory = false;  // it was given some; the others only imported torch
  bool refused = false;      // there was none for it, at least once
  std::uint64_t granted_bytes = 0;
  std::uint64_t peak_granted_bytes = 0;
  std::uint64_t peak_resident_bytes = 0;
};

// What there is to say of a job.
struct JobFacts {
  std::uint64_t budget_bytes = 0;        // now
  std::uint64_t budget_least_bytes = 0;  // that it has been
  std::uint64_t budget_most_bytes = 0;
  bool automatic = false;  // it follows what the machine has
  bool equal = false;
  std::uint64_t peak_resident_bytes = 0;  // of all together, at one time
  std::uint64_t moved_bytes = 0;          // from one process to another
  std::vector<JobProcess> processes;      // in the order in which they joined
  std::uint64_t more_processes = 0;       // that are not listed
  std::vector<Outsider> outsiders;        // that used memory and did not join
};

// What a job is given.
struct JobTerms {
  std::uint64_t budget_bytes = 0;
  bool automatic = false;  // the budget follows what the machine has, whatever budget_bytes says
  std::uint64_t flash_bytes = 0;
  JobBroker::Share share = JobBroker::Share::kStalls;
  bool strict = false;                                 // a process that uses memory and cannot join is ended
  std::function<void(std::uint64_t bytes)> on_budget;  // called with each new budget, on the server's thread; brief
};

class JobServer {
 public:
  // Throws Error: no socket can be made at `path`.
  JobServer(const std::string& path, const JobTerms& terms);
  ~JobServer();
  JobServer(const JobServer&) = delete;
  JobServer& operator=(const JobServer&) = delete;

  JobFacts facts() const;
  std::uint64_t budget_bytes() const;
  bool automatic() const { return automatic_.has_value(); }

 private:
  struct Peer {
    FileDescriptor socket;
    FileDescriptor process;  // readable once it has ended
    bool joined = false;
    std::size_t entry = 0;  // in facts_.processes; kNone: it is not listed
    std::uint64_t resident_bytes = 0;
  };
  static constexpr std::size_t kNone = ~std::size_t{0};

  void serve();
  void accept_all();
  bool hear(JobBroker::Id id, Peer& peer);
  bool take(JobBroker::Id id, Peer& peer, const JobMessage& message);
  void deliver();
  void leave(JobBroker::Id id);
  void note_resident();
  void note_budget();
  void look_around(std::unique_lock<std::mutex>& lock);
  void look_at_memory(std::unique_lock<std::mutex>& lock);

  const FileDescriptor listener_;
  const FileDescriptor wake_;
  const bool strict_;
  const std::function<void(std::uint64_t)> on_budget_;
  // The thread's own.
  ProcessWatch watch_;
  std::optional<AutoMemory> automatic_;
  mutable std::mutex mutex_;  // what follows
  JobBroker broker_;
  std::map<JobBroker::Id, Peer> peers_;
  JobFacts facts_;
  JobBroker::Id next_ = 1;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace ebb::cli
