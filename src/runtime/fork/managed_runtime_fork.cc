// ManagedRuntime: fork. The child sees the moment of the fork, whatever other threads do: everything in memory is at
// home then, where nobody can touch it, and comes back to the parent as it has been written for the child. What cannot
// leave its place the child gets by copy-on-write.
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
#include "base/internal_thread.h"
#include "runtime/managed_runtime.h"

namespace ebb {
namespace {

// Runtimes of this process, in the order of their making. Fixed size: fork handlers should not allocate.
constexpr std::size_t kRuntimesMax = 64;
constexpr std::chrono::seconds kFinishMax{60};
OrderedMutex<Rank::kRuntimes> g_runtimes_mutex;
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

// Blocks that children are still owed, by all runtimes of this process.
std::atomic<std::uint32_t> g_owed{0};

// When the program starts, or the extension is loaded, so that our handler is among the last before a fork: others wait
// in theirs for threads that may wait for a fault (OpenBLAS joins its workers), which is served until then.
const bool g_installed = ::pthread_atfork(before, after_in_parent, after_in_child) == 0 &&
                         std::atexit(ManagedRuntime::before_end_of_process) == 0;

}  // namespace

// What ends the process otherwise leaves a child without what it was still owed, and the child is told.
void ManagedRuntime::before_end_of_process() {
  constexpr int kLookEveryUs = 1000;
  const std::int64_t looks_max = std::chrono::microseconds(kFinishMax).count() / kLookEveryUs;
  for (std::int64_t looks = 0; g_owed.load() > 0 && looks < looks_max; ++looks) ::usleep(kLookEveryUs);
}

void ManagedRuntime::register_for_fork() {
  EBB_CHECK(g_installed);
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
  while (core_.budget().making_frame_ahead())
    changed_.wait_for(lock, std::chrono::milliseconds(10));  // some milliseconds
  settle_written();
  std::vector<BlockIndex> stay;
  core_.engine().freeze(stay);
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) == 0) ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  // Without a pipe, or a board, the child finds nothing, and is told so.
  child_pipe_ = ends[1];
  forming_.pipe = ends[0];
  forming_.board = ends[0] >= 0 ? ForkBoard::make(core_.table().frames_max()) : nullptr;
  if (forming_.board != nullptr) {
    forming_.extents = core_.snapshot();
    forming_.extents.reserve(forming_.extents.size() + core_.engine().owed());
    for (std::uint32_t i = 0; i < core_.table().frames_max(); ++i) {
      const BlockIndex index = core_.table().block_of(FrameIndex(i));
      if (index.valid() && core_.table()[index].owed) forming_.board->owe(FrameIndex(i));
    }
  }
  adopted_mutex_.lock();
  cache_.before_fork();
  memory_->before_fork(stay);
  static_cast<void>(lock.release());  // until after the fork
}

void ManagedRuntime::after_fork_parent() {
  if (child_) return;
  if (child_pipe_ >= 0) ::close(child_pipe_);
  child_pipe_ = -1;
  if (forming_.board != nullptr) {
    snapshots_.push_back(std::move(forming_));
  } else {
    if (forming_.pipe >= 0) ::close(forming_.pipe);
    if (core_.engine().owed() > 0 && snapshots_.empty()) core_.engine().thaw();
  }
  forming_ = {};
  memory_->after_fork();
  cache_.after_fork();
  pump();
  count_owed();
  flash_.wake();
  changed_.notify_all();  // where nothing is kept for a child all has come back
  adopted_mutex_.unlock();
  mutex_.unlock();
}

// Lock held.
void ManagedRuntime::count_owed() {
  const std::uint32_t now = core_.engine().owed();
  g_owed.fetch_add(now - owed_counted_);  // perhaps less
  owed_counted_ = now;
}

// What has been written for children is theirs. Lock held.
void ManagedRuntime::settle_written() {
  for (const Engine::Written& written : core_.engine().written()) {
    for (Snapshot& snapshot : snapshots_) {
      if (!snapshot.board->owes(written.frame)) continue;
      if (!written.extent.valid()) {
        snapshot.board->lose(written.frame);
        continue;
      }
      core_.retain(written.extent);
      snapshot.extents.push_back(written.extent);
      snapshot.board->write(written.frame, written.extent, core_.extents().digest_of(written.extent));
    }
    if (written.extent.valid()) core_.release_snapshot({&written.extent, 1});
  }
  core_.engine().forget_written();
  count_owed();
}

void ManagedRuntime::release_ended_snapshots() {
  std::erase_if(snapshots_, [&](const Snapshot& snapshot) {
    pollfd polled{snapshot.pipe, POLLIN, 0};
    if (::poll(&polled, 1, 0) <= 0 || (polled.revents & (POLLHUP | POLLERR)) == 0) return false;
    core_.release_snapshot(snapshot.extents);
    ::close(snapshot.pipe);
    return true;
  });
  const bool wanted = std::ranges::any_of(snapshots_, [](const Snapshot& kept) { return kept.board->owed() > 0; });
  if (core_.engine().owed() == 0 || wanted) return;
  // The child has ended, or become another program: what is still frozen need not be written.
  core_.engine().thaw();
  count_owed();
  pump();
  changed_.notify_all();
}

// At the end of the runtime.
void ManagedRuntime::finish_forks() {
  Lock lock(mutex_);
  changed_.wait_for(lock, kFinishMax, [&] { return core_.engine().owed() == 0; });
  g_owed.fetch_sub(owed_counted_);
  owed_counted_ = 0;
}

void ManagedRuntime::after_fork_child() {
  const bool first = !child_;
  child_ = true;
  if (first) {
    cache_.after_fork();
    adopted_mutex_.unlock();
    mutex_.unlock();
    close_forming();
    g_owed.store(0);
    // The parent's threads do not exist here; their handles are forgotten, not joined.
    new (&changed_) OrderedCondition();
    stats_file_.detach();
    ledger_.detach();
    timeline_.detach();
    forked_empty_ = job_ != nullptr && job_->idle();
    if (job_ != nullptr) job_->abandon();
  }
  new (&mover_) std::thread();
  new (&fault_thread_) std::thread();
  // Where either is refused, no touch of a tensor is served: it fails, or has nobody who answers it.
  const bool entered = memory_->enter_child() == Status::kOk;
  if (entered && start_internal_thread(
                     "ebb-faults", [this] { child_fault_loop(); }, fault_thread_) == Status::kOk) {
    return;
  }
  if (entered) memory_->close_child();
  static constexpr char kText[] =
      "ebb: a forked process cannot use the tensors of its parent: the system refuses it memory, a descriptor or a "
      "thread (ulimit -v, -n, -u). A touch of one fails\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, kText, sizeof kText - 1);
}

// The parent's ends of pipes would keep other children from noticing that it has ended.
void ManagedRuntime::close_forming() {
  if (forming_.pipe >= 0) ::close(forming_.pipe);
  forming_.pipe = -1;
  for (Snapshot& snapshot : snapshots_) {
    ::close(snapshot.pipe);
    static_cast<void>(snapshot.board.release());  // freeing takes time, and its pages are the parent's
  }
  snapshots_.clear();
}

void ManagedRuntime::child_fault_loop() {
  const std::size_t bytes = core_.block_bytes();
  void* const mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const std::span<std::byte> buffer(static_cast<std::byte*>(mapped), mapped == MAP_FAILED ? 0 : bytes);
  if (!buffer.empty()) ::madvise(mapped, bytes, MADV_DONTDUMP);
  std::array<BlockIndex, 32> blocks;
  while (!stopping_) {
    const std::size_t count = memory_->next(blocks);
    for (const BlockIndex index : std::span(blocks).first(count)) serve_child(index, buffer);
  }
  if (!buffer.empty()) ::munmap(mapped, bytes);
}

void ManagedRuntime::serve_child(BlockIndex index, std::span<std::byte> buffer) {
  const Block& block = core_.table()[index];
  FlashRequest read;
  read.has_expected = true;
  read.extent = block.extent;
  Status status = buffer.empty() ? Status::kNoMemory : Status::kOk;
  if (block.owed) {
    if (status == Status::kOk && forming_.board != nullptr) {
      status = forming_.board->read(block.frame, child_pipe_, read.extent, read.expected);
    } else {
      status = Status::kIoError;
    }
  } else if (read.extent.valid()) {
    read.has_expected = core_.extents().has_digest(read.extent);
    read.expected = core_.extents().digest_of(read.extent);
  } else if (block.state == BlockState::kUntouched || block.state == BlockState::kResident) {
    // Nothing was there; or it was inherited where it is, and the parent had discarded this page of it.
    memory_->place(index, {});
    return;
  } else {
    status = Status::kIoError;
  }
  if (status == Status::kOk) {
    read.place = core_.extents().place_of(read.extent);
    status = flash_.read_now(read, buffer);
  }
  if (status == Status::kOk) return memory_->place(index, buffer);
  static constexpr char kText[] =
      "ebb: a forked process touched a tensor that could not be kept for it: flash is full or failing, or its parent "
      "was killed too soon after the fork\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, kText, sizeof kText - 1);
  memory_->fail(index);
}

}  // namespace ebb
