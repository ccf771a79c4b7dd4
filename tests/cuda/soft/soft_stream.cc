// See soft_stream.h.
#include "soft_stream.h"

#include <csetjmp>
#include <csignal>

namespace ebb::soft {
namespace {

struct Guard {
  sigjmp_buf back;
  const std::byte* begin = nullptr;
  const std::byte* end = nullptr;
};
thread_local Guard* t_guard = nullptr;
struct sigaction g_before[2];

void on_fault(int signal, siginfo_t* info, void* context) {
  const auto* const address = static_cast<const std::byte*>(info->si_addr);
  if (t_guard != nullptr && address >= t_guard->begin && address < t_guard->end) siglongjmp(t_guard->back, 1);
  // Not a device address: whoever was there before is asked, and in the end the process dies of it.
  const struct sigaction& before = g_before[signal == SIGSEGV ? 0 : 1];
  if ((before.sa_flags & SA_SIGINFO) != 0 && before.sa_sigaction != nullptr) {
    before.sa_sigaction(signal, info, context);
  } else {
    ::signal(signal, SIG_DFL);
  }
}

bool install() {
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  ::sigaction(SIGSEGV, &action, &g_before[0]);
  ::sigaction(SIGBUS, &action, &g_before[1]);
  return true;
}

}  // namespace

bool run_guarded(const std::function<void()>& body, const std::byte* begin, const std::byte* end) {
  static const bool installed = install();
  static_cast<void>(installed);
  Guard guard;
  guard.begin = begin;
  guard.end = end;
  t_guard = &guard;
  volatile bool whole = false;
  if (sigsetjmp(guard.back, 1) == 0) {
    body();
    whole = true;
  }
  t_guard = nullptr;
  return whole;
}

void SoftEvent::reach(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  if (done_ < number) done_ = number;
  done_at_ = std::chrono::steady_clock::now();
  changed_.notify_all();
}

void SoftEvent::wait(std::uint64_t number) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_ >= number; });
}

SoftStream::SoftStream(std::uint32_t number) : number_(number), thread_([this] { run(); }) {}

SoftStream::~SoftStream() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void SoftStream::give(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
  }
  changed_.notify_all();
}

void SoftStream::drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return work_.empty() && !busy_; });
}

void SoftStream::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return !work_.empty() || ending_; });
    if (work_.empty()) return;
    {
      const std::function<void()> work = std::move(work_.front());
      work_.pop_front();
      busy_ = true;
      lock.unlock();
      work();
      lock.lock();
    }
    busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace ebb::soft
