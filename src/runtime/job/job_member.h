// JobMember: a runtime's place in a job: the connection to the broker of `ebb run`, and the thread that obeys it.
//
// It joins when it is made and has nothing; need() waits for the first grant. From then on its thread raises and lowers
// the budget of its holder as it is told, and says how things are a few times a second. Should the broker die, the
// holder keeps what it has.
//
// Owned by a ManagedRuntime. Its lock stands alone: no other is taken under it. In a forked child only abandon().
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "job/message.h"

namespace ebb {

// Whose budget it is. Called by the member's thread alone, without a lock.
class JobHolder {
 public:
  virtual ~JobHolder() = default;
  // Towards these bytes, at once or one step; returns what is in force now.
  virtual std::uint64_t change_budget(std::uint64_t bytes) noexcept = 0;
  // All the flash that it may use; and how much more it should have, not because somebody waits.
  virtual void flash_changed(std::uint64_t bytes) noexcept = 0;
  virtual std::uint64_t flash_wanted() noexcept = 0;
  // Fills resident_bytes, least_bytes and stall_permille.
  virtual void report(JobMessage& message) noexcept = 0;
};

class JobMember {
 public:
  // Throws Error: nobody listens there any more, or the system refuses a thread.
  JobMember(const std::string& path, JobMessage hello);
  ~JobMember();
  JobMember(const JobMember&) = delete;
  JobMember& operator=(const JobMember&) = delete;

  // From when `holder` can be called.
  void start(JobHolder& holder);
  // Whether need() has not succeeded yet.
  bool idle() const { return idle_.load(std::memory_order_acquire); }
  // Waits for the guaranteed minimum, at least. Throws Error where there is none.
  void need();
  // Calls the holder no more: its thread has ended when this returns. The broker sees the end with the member's.
  void stop();
  // Asks for so much more flash, and returns when the holder has been told what there is; at once if nobody answers.
  void more_flash(std::uint64_t bytes);
  // In a forked child: the connection is the parent's.
  void abandon();

 private:
  void run(JobHolder& holder);
  bool hear(JobHolder& holder);
  void obey(JobHolder& holder);
  void say(JobHolder& holder, bool stuck);

  int socket_ = -1;
  int wake_ = -1;
  std::thread thread_;
  std::atomic<bool> idle_{true};
  std::atomic<bool> stopping_{false};
  // The member's thread's own.
  bool granted_ = false;
  std::uint64_t target_ = 0;
  std::uint64_t serial_ = 0;
  std::uint64_t now_ = 0;
  std::chrono::milliseconds report_every_{250};

  std::mutex mutex_;
  std::condition_variable answered_;
  bool asked_ = false;
  bool gone_ = false;  // the broker
  std::uint64_t refusals_ = 0;
  JobMessage refusal_;
  std::uint64_t flash_answers_ = 0;
};

}  // namespace ebb
