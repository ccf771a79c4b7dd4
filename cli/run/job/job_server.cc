// See job_server.h.
#include "run/job/job_server.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/internal_thread.h"
#include "ebb/status.h"
#include "job/job_socket.h"

namespace ebb::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kTick{250};
constexpr std::chrono::seconds kLook{1};
constexpr std::size_t kPeersMax = 512;   // connections at once; more are turned away
constexpr std::size_t kListedMax = 256;  // processes, the dead among them
constexpr int kMessagesMax = 32;         // of one member, before the others are heard

}  // namespace

JobServer::JobServer(const std::string& path, const JobTerms& terms)
    : listener_(listen_job(path)),
      wake_(open_bell()),
      strict_(terms.strict),
      on_budget_(terms.on_budget),
      watch_(path),
      automatic_(terms.automatic ? std::make_optional<AutoMemory>() : std::nullopt),
      broker_(automatic_ ? automatic_->bytes() : terms.budget_bytes, terms.share, terms.flash_bytes) {
  if (!listener_.valid() || !wake_.valid()) {
    throw Error(Status::kIoError,
                fmt::format("cannot make a socket in '{}': {}; set TMPDIR to another directory", path, explain(errno)));
  }
  facts_.budget_least_bytes = broker_.budget_bytes();
  note_budget();
  facts_.automatic = terms.automatic;
  facts_.equal = terms.share == JobBroker::Share::kEqual;
  const auto run = [this] { serve(); };
  if (start_internal_thread("ebb-job", run, thread_) != Status::kOk) {
    throw Error(Status::kNoMemory,
                "no thread can be started for the memory budget: lift ulimit -u, or the limit on tasks of the "
                "container");
  }
}

JobServer::~JobServer() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  ring(wake_.get());
  thread_.join();
}

JobFacts JobServer::facts() const {
  const std::lock_guard lock(mutex_);
  return facts_;
}

std::uint64_t JobServer::budget_bytes() const {
  const std::lock_guard lock(mutex_);
  return facts_.budget_bytes;
}

void JobServer::note_budget() {
  facts_.budget_bytes = broker_.budget_bytes();
  facts_.budget_least_bytes = std::min(facts_.budget_least_bytes, facts_.budget_bytes);
  facts_.budget_most_bytes = std::max(facts_.budget_most_bytes, facts_.budget_bytes);
  if (on_budget_) on_budget_(facts_.budget_bytes);
}

void JobServer::serve() {
  Clock::time_point next_tick = Clock::now() + kTick;
  Clock::time_point next_memory = automatic_ ? Clock::now() : Clock::time_point::max();
  Clock::time_point next_look = Clock::now() + kLook;
  std::vector<pollfd> waited;
  std::vector<JobBroker::Id> ids;
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    waited = {{listener_.get(), POLLIN, 0}, {wake_.get(), POLLIN, 0}};
    ids.clear();
    for (const auto& [id, peer] : peers_) {
      waited.push_back({peer.socket.get(), POLLIN, 0});
      waited.push_back({peer.process.get(), POLLIN, 0});
      ids.push_back(id);
    }
    lock.unlock();
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(std::min(next_tick, next_memory) - Clock::now());
    ::poll(waited.data(), waited.size(), static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
    lock.lock();
    accept_all();
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const pollfd& socket = waited[2 + 2 * i];
      const pollfd& process = waited[3 + 2 * i];
      // One that has ended is gone although a child of its may hold the connection.
      const bool ended = process.revents != 0;
      if (ended || (socket.revents != 0 && !hear(ids[i], peers_.at(ids[i])))) leave(ids[i]);
    }
    if (Clock::now() >= next_memory) {
      look_at_memory(lock);
      next_memory = Clock::now() + AutoMemory::kEvery;
    }
    if (Clock::now() >= next_tick) {
      next_tick = Clock::now() + kTick;
      broker_.tick();
    }
    deliver();
    if (Clock::now() >= next_look) {
      look_around(lock);
      next_look = Clock::now() + kLook;
    }
  }
}

void JobServer::accept_all() {
  for (;;) {
    FileDescriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.valid()) return;
    ucred peer{};
    socklen_t size = sizeof peer;
    const bool known = ::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0;
    if (!known || peer.uid != ::geteuid() || peers_.size() >= kPeersMax) continue;
    FileDescriptor process(static_cast<int>(::syscall(SYS_pidfd_open, peer.pid, 0)));
    if (!process.valid() && errno == ESRCH) continue;
    std::size_t entry = kNone;
    if (facts_.processes.size() < kListedMax) {
      entry = facts_.processes.size();
      facts_.processes.push_back({peer.pid, process_name(peer.pid)});
    } else {
      ++facts_.more_processes;
    }
    peers_[next_++] = Peer{std::move(socket), std::move(process), false, entry, 0};
  }
}

// False: it is gone, or talks nonsense.
bool JobServer::hear(JobBroker::Id id, Peer& peer) {
  JobMessage message;
  for (int i = 0; i < kMessagesMax; ++i) {
    const Received received = receive_job(peer.socket.get(), message);
    if (received == Received::kNothing) return true;
    if (received == Received::kClosed || !take(id, peer, message)) return false;
  }
  return true;
}

bool JobServer::take(JobBroker::Id id, Peer& peer, const JobMessage& message) {
  switch (message.kind) {
    case JobMessage::Kind::kHello:
      if (peer.joined) return false;
      peer.joined = true;
      broker_.join(id, {message.rank, message.ranks, message.least_bytes, message.most_bytes});
      if (peer.entry != kNone) facts_.processes[peer.entry].rank = message.rank;
      return true;
    case JobMessage::Kind::kNeed: broker_.need(id); return peer.joined;
    case JobMessage::Kind::kFlash: broker_.need_flash(id, message.bytes); return peer.joined;
    case JobMessage::Kind::kReport:
      broker_.report(id, {message.serial, message.bytes, message.resident_bytes, message.least_bytes,
                          message.stall_permille, message.stuck != 0});
      peer.resident_bytes = std::min(message.resident_bytes, facts_.budget_most_bytes);
      note_resident();
      return peer.joined;
    default: return false;
  }
}

void JobServer::note_resident() {
  std::uint64_t sum = 0;
  for (const auto& [id, peer] : peers_) {
    sum += peer.resident_bytes;
    if (peer.entry == kNone) continue;
    JobProcess& process = facts_.processes[peer.entry];
    process.peak_resident_bytes = std::max(process.peak_resident_bytes, peer.resident_bytes);
  }
  facts_.peak_resident_bytes = std::max(facts_.peak_resident_bytes, sum);
}

// An order that cannot be delivered is counted by the broker as it counts one that is not obeyed.
void JobServer::deliver() {
  for (const JobBroker::Order& order : broker_.take_orders()) {
    const auto found = peers_.find(order.id);
    if (found == peers_.end()) continue;
    JobMessage message;
    message.kind = order.refused ? JobMessage::Kind::kRefuse : JobMessage::Kind::kGrant;
    if (order.flash) message.kind = JobMessage::Kind::kFlash;
    message.serial = order.serial;
    message.bytes = order.refused ? facts_.budget_bytes : order.bytes;
    const auto& members = broker_.members();
    message.members = static_cast<std::uint32_t>(std::count_if(members.begin(), members.end(), [](const auto& member) {
      return member.second.state == JobBroker::Member::State::kActive;
    }));
    message.least_bytes = members.at(order.id).facts.least_bytes;
    if (automatic_) message.report_ms = static_cast<std::uint32_t>(AutoMemory::kEvery.count());
    static_cast<void>(send_job(found->second.socket.get(), message));
    if (found->second.entry == kNone || order.flash) continue;
    JobProcess& process = facts_.processes[found->second.entry];
    process.refused = process.refused || order.refused;
    if (order.refused) continue;
    if (order.bytes < process.granted_bytes && !order.given_back)
      facts_.moved_bytes += process.granted_bytes - order.bytes;
    process.used_memory = true;
    process.granted_bytes = order.bytes;
    process.peak_granted_bytes = std::max(process.peak_granted_bytes, order.bytes);
  }
}

// Before the members are told anything: what there is may be less by now.
void JobServer::look_at_memory(std::unique_lock<std::mutex>& lock) {
  const std::uint64_t held = broker_.resident_bytes();
  const std::uint64_t least = broker_.least_bytes();
  lock.unlock();
  const std::uint64_t bytes = automatic_->look(held, least);
  lock.lock();
  if (bytes == broker_.budget_bytes()) return;
  broker_.set_budget(bytes);
  note_budget();
}

// Slow, so nobody is kept waiting by the lock meanwhile.
void JobServer::look_around(std::unique_lock<std::mutex>& lock) {
  std::vector<pid_t> members;
  for (const JobProcess& process : facts_.processes) {
    if (process.alive) members.push_back(process.pid);
  }
  lock.unlock();
  const std::vector<Outsider> news = watch_.look(members);
  for (const Outsider& outsider : news) {
    if (!strict_ || outsider.forked) continue;
    ::kill(outsider.pid, SIGKILL);
    write_all(STDERR_FILENO, fmt::format("ebb: --strict: '{}' (process {}) cannot be managed and was ended: {}\n",
                                         outsider.name, outsider.pid, outsider.why));
  }
  lock.lock();
  facts_.outsiders.clear();
  for (const auto& [pid, outsider] : watch_.found()) facts_.outsiders.push_back(outsider);
}

void JobServer::leave(JobBroker::Id id) {
  const auto found = peers_.find(id);
  if (found->second.entry != kNone) {
    facts_.processes[found->second.entry].alive = false;
    facts_.processes[found->second.entry].granted_bytes = 0;
  }
  peers_.erase(found);
  broker_.leave(id);
}

}  // namespace ebb::cli
