// See job_member.h.
#include "runtime/job/job_member.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "base/internal_thread.h"
#include "ebb/status.h"
#include "ebb/units.h"
#include "job/job_socket.h"

namespace ebb {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kReportEvery{250};
constexpr std::chrono::milliseconds kReportLeast{10};
constexpr std::chrono::seconds kFlashMax{5};
constexpr std::chrono::seconds kNeedMax{30};  // longer than the broker takes to refuse

}  // namespace

JobMember::JobMember(const std::string& path, JobMessage hello) : socket_(connect_job(path)) {
  const bool joined = socket_ >= 0 && send_job(socket_, hello);
  wake_ = joined ? ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) : -1;
  if (wake_ >= 0) return;
  const int error = errno;
  if (socket_ >= 0) ::close(socket_);
  if (error == EMFILE) {
    throw Error(Status::kUnsupported,
                "this process cannot join its job, and would have no memory budget: it has as many open files as it "
                "may have; lift ulimit -n");
  }
  throw Error(Status::kUnsupported, "this process cannot join its job ('" + path + "': " + std::strerror(error) +
                                        "), and would have no memory budget: the `ebb run` that it belongs to has "
                                        "ended; start it under a new one, or without EBB_JOB in its environment");
}

void JobMember::stop() {
  stopping_ = true;
  if (wake_ >= 0) ::eventfd_write(wake_, 1);
  if (thread_.joinable()) thread_.join();
}

JobMember::~JobMember() {
  stop();
  if (socket_ >= 0) ::close(socket_);
  if (wake_ >= 0) ::close(wake_);
}

void JobMember::start(JobHolder& holder) {
  if (start_internal_thread(
          "ebb-job", [this, &holder] { run(holder); }, thread_) == Status::kOk)
    return;
  throw Error(Status::kUnsupported,
              "no thread can be started for the memory budget: lift ulimit -u, or the limit on "
              "tasks of the container");
}

void JobMember::abandon() {
  ::close(socket_);
  ::close(wake_);
  socket_ = wake_ = -1;
  new (&thread_) std::thread();  // it does not exist here
  idle_ = false;
}

void JobMember::need() {
  std::unique_lock lock(mutex_);
  const std::uint64_t refusals = refusals_;
  if (!asked_ && !gone_) {
    asked_ = true;
    JobMessage message;
    message.kind = JobMessage::Kind::kNeed;
    gone_ = !send_job(socket_, message);
  }
  answered_.wait_for(lock, kNeedMax, [&] { return !idle() || gone_ || refusals_ != refusals; });
  if (!idle()) return;
  if (refusals_ != refusals) {
    throw Error(Status::kNoMemory, "out of memory: the job's budget of " + format_size(refusal_.bytes) +
                                       " is shared by " + std::to_string(refusal_.members) +
                                       " of its processes, and what is left is less than another needs (" +
                                       format_size(refusal_.least_bytes) +
                                       "). Give the job more (--memory), or run fewer processes");
  }
  throw Error(Status::kNoMemory, gone_ ? "out of memory: the `ebb run` of this job has ended, and nobody can give this "
                                         "process a share of its budget"
                                       : "out of memory: `ebb run` has not answered for 30 s");
}

void JobMember::more_flash(std::uint64_t bytes) {
  std::unique_lock lock(mutex_);
  JobMessage message;
  message.kind = JobMessage::Kind::kFlash;
  message.bytes = bytes;
  const std::uint64_t answers = flash_answers_;
  if (gone_ || !send_job(socket_, message)) return;
  answered_.wait_for(lock, kFlashMax, [&] { return gone_ || flash_answers_ != answers; });
}

// Until the broker is gone, or the holder.
void JobMember::run(JobHolder& holder) {
  Clock::time_point said = Clock::now();
  bool connected = true;
  while (connected && !stopping_) {
    const bool hurry = granted_ && now_ != target_;
    pollfd waited[2] = {{socket_, POLLIN, 0}, {wake_, POLLIN, 0}};
    ::poll(waited, 2, hurry ? 0 : static_cast<int>(report_every_.count()));
    connected = hear(holder);
    if (granted_ && now_ != target_) obey(holder);
    if (granted_ && Clock::now() - said >= report_every_) {
      said = Clock::now();
      say(holder, false);
      JobMessage more;
      more.kind = JobMessage::Kind::kFlash;
      more.bytes = holder.flash_wanted();
      if (more.bytes > 0) static_cast<void>(send_job(socket_, more));
    }
  }
  const std::lock_guard lock(mutex_);
  gone_ = true;
  answered_.notify_all();
}

bool JobMember::hear(JobHolder& holder) {
  JobMessage message;
  for (;;) {
    const Received received = receive_job(socket_, message);
    if (received != Received::kMessage) return received == Received::kNothing;
    if (message.kind == JobMessage::Kind::kGrant) {
      target_ = message.bytes;
      serial_ = message.serial;
      const std::chrono::milliseconds every(message.report_ms);
      report_every_ = message.report_ms > 0 ? std::clamp(every, kReportLeast, kReportEvery) : kReportEvery;
      if (!granted_) now_ = holder.change_budget(target_);
      granted_ = true;
    } else if (message.kind == JobMessage::Kind::kFlash) {
      holder.flash_changed(message.bytes);
      const std::lock_guard lock(mutex_);
      ++flash_answers_;
      answered_.notify_all();
    } else if (message.kind == JobMessage::Kind::kRefuse) {
      const std::lock_guard lock(mutex_);
      refusal_ = message;
      ++refusals_;
      asked_ = false;
      answered_.notify_all();
    }
    if (granted_ && idle()) {
      const std::lock_guard lock(mutex_);
      idle_.store(false, std::memory_order_release);
      answered_.notify_all();
    }
  }
}

// A step at a time, so that what has left is another's at once, and a newer order is heard.
void JobMember::obey(JobHolder& holder) {
  const std::uint64_t before = now_;
  now_ = holder.change_budget(target_);
  const bool stuck = now_ == before && now_ > target_;
  if (stuck) target_ = now_;
  say(holder, stuck);
}

void JobMember::say(JobHolder& holder, bool stuck) {
  JobMessage message;
  message.kind = JobMessage::Kind::kReport;
  message.serial = serial_;
  message.bytes = now_;
  message.stuck = stuck ? 1 : 0;
  holder.report(message);
  static_cast<void>(send_job(socket_, message));
}

}  // namespace ebb
