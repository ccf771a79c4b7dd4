// ManagedRuntime: fork. The child reads what its parent had at the fork from flash, into memory of its own.
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <new>

#include "base/check.h"
#include "base/clock.h"
#include "runtime/managed_runtime.h"

namespace ebb {
namespace {

// Runtimes of this process, in the order of their making. Fixed size: fork handlers should not allocate.
constexpr std::size_t kRuntimesMax = 64;
constexpr int kIdleTriesMax = 20;  // of 10 ms, in which nothing moves: the flush cannot be completed
std::mutex g_runtimes_mutex;
std::array<ManagedRuntime*, kRuntimesMax> g_runtimes{};
std::size_t g_runtimes_count = 0;

void for_each_runtime(void (ManagedRuntime::*function)()) {
  for (std::size_t i = 0; i < g_runtimes_count; ++i) (g_runtimes[i]->*function)();
}

void before() {
  g_runtimes_mutex.lock();
  for_each_runtime(&ManagedRuntime::before_fork);
}
void after_in_parent() {
  for_each_runtime(&ManagedRuntime::after_fork_parent);
  g_runtimes_mutex.unlock();
}
void after_in_child() {
  for_each_runtime(&ManagedRuntime::after_fork_child);
  g_runtimes_mutex.unlock();
}

}  // namespace

void ManagedRuntime::register_for_fork() {
  static const int installed = ::pthread_atfork(before, after_in_parent, after_in_child);
  EBB_CHECK_EQ(installed, 0);
  const std::lock_guard lock(g_runtimes_mutex);
  EBB_CHECK_LT(g_runtimes_count, kRuntimesMax);
  g_runtimes[g_runtimes_count++] = this;
}

void ManagedRuntime::unregister_for_fork() {
  const std::lock_guard lock(g_runtimes_mutex);
  const auto end = g_runtimes.begin() + static_cast<std::ptrdiff_t>(g_runtimes_count);
  const auto found = std::find(g_runtimes.begin(), end, this);
  std::move(found + 1, end, found);
  --g_runtimes_count;
}

void ManagedRuntime::before_fork() {
  if (child_) return;
  Lock lock(mutex_);
  // A child needs nothing of what is held for reuse.
  tell_core();
  claim_cache();
  tell_core();
  if (adoption_ != nullptr) settle_adopted();
  while (core_.making_frame_ahead()) changed_.wait_for(lock, std::chrono::milliseconds(10));  // some milliseconds
  std::uint32_t cursor = 0;
  for (int idle = 0; !core_.flush(cursor);) {
    pump();
    after_change();
    const bool moves = core_.engine().in_flight() > 0 || core_.extents_wanted() > 0;
    idle = moves ? 0 : idle + 1;
    if (idle > kIdleTriesMax) {
      // Flash is full or failing, or somebody has pinned a page. The child is told when it touches what is missing.
      core_.engine().give_up_flush(cursor);
      break;
    }
    changed_.wait_for(lock, std::chrono::milliseconds(10));
  }
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) == 0) {
    ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
    forming_ = {ends[0], core_.snapshot()};
    child_pipe_ = ends[1];
  } else {
    forming_ = {-1, {}};
  }
  adopted_mutex_.lock();
  memory_->before_fork();
  static_cast<void>(lock.release());  // until after the fork
}

void ManagedRuntime::after_fork_parent() {
  if (child_) return;
  if (child_pipe_ >= 0) ::close(child_pipe_);
  child_pipe_ = -1;
  if (forming_.pipe >= 0) snapshots_.push_back(std::move(forming_));
  forming_ = {};
  memory_->after_fork();
  adopted_mutex_.unlock();
  mutex_.unlock();
}

void ManagedRuntime::release_ended_snapshots() {
  std::erase_if(snapshots_, [&](const Snapshot& snapshot) {
    pollfd polled{snapshot.pipe, POLLIN, 0};
    if (::poll(&polled, 1, 0) <= 0 || (polled.revents & (POLLHUP | POLLERR)) == 0) return false;
    core_.release_snapshot(snapshot.extents);
    ::close(snapshot.pipe);
    return true;
  });
}

void ManagedRuntime::after_fork_child() {
  const bool first = !child_;
  child_ = true;
  if (first) {
    if (forming_.pipe >= 0) ::close(forming_.pipe);
    memory_->after_fork();
    adopted_mutex_.unlock();
    mutex_.unlock();
    // The parent's threads do not exist here; their handles are forgotten, not joined.
    new (&changed_) std::condition_variable();
    stats_file_.detach();
  }
  new (&mover_) std::thread();
  new (&fault_thread_) std::thread();
  if (memory_->enter_child() != Status::kOk) {
    static constexpr char kText[] =
        "ebb: a forked process cannot use the tensors of its parent: the system refused it memory or faults\n";
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, kText, sizeof kText - 1);
    return;
  }
  fault_thread_ = std::thread([this] { child_fault_loop(); });
}

void ManagedRuntime::child_fault_loop() {
  const std::size_t bytes = core_.block_bytes();
  void* const mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EBB_CHECK(mapped != MAP_FAILED);
  const std::span<std::byte> buffer(static_cast<std::byte*>(mapped), bytes);
  std::array<BlockIndex, 32> blocks;
  while (!stopping_) {
    const std::size_t count = memory_->next(blocks);
    for (const BlockIndex index : std::span(blocks).first(count)) {
      const Block& block = core_.table()[index];
      if (block.extent.valid()) {
        const Status status = flash_.read_now(block.extent, core_.extents().digest_of(block.extent), buffer);
        if (status == Status::kOk) {
          memory_->place(index, buffer);
          continue;
        }
      } else if (block.state == BlockState::kUntouched) {
        memory_->place(index, {});
        continue;
      }
      static constexpr char kText[] = "ebb: a forked process touched a tensor that could not be kept for it on flash\n";
      [[maybe_unused]] const auto written = ::write(STDERR_FILENO, kText, sizeof kText - 1);
      memory_->fail(index);
    }
  }
  ::munmap(mapped, bytes);
}

}  // namespace ebb
