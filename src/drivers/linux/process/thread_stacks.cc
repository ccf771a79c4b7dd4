// See thread_stacks.h.
#include "drivers/linux/process/thread_stacks.h"

#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "calls/imports.h"
#include "calls/table.h"
#include "calls/thread_start.h"
#include "drivers/linux/process/signal_chain.h"
#include "drivers/linux/process/signal_stack.h"
#include "drivers/linux/system/system_files.h"

namespace ebb {
namespace {

// SIGURG: who comes too late to find our handler is left alone by it.
constexpr int kSignal = SIGURG;
constexpr std::chrono::milliseconds kPatience{100};

// ---- threads that are made from now on ----

constinit calls::CreateThread g_create = nullptr;

int create_with_stack(pthread_t* made, const pthread_attr_t* attributes, void* (*run)(void*), void* argument) {
  return calls::create_thread(g_create, made, attributes, {run, argument, &ensure_signal_stack});
}

bool in_one_library(const void* left, const void* right) {
  Dl_info of_left{}, of_right{};
  return ::dladdr(left, &of_left) != 0 && ::dladdr(right, &of_right) != 0 && of_left.dli_fbase == of_right.dli_fbase;
}

// A library of the calls that has come late, or behind another one's pthread_create(), is not called by all.
bool see_to_new_threads() {
  void* const first = ::dlsym(RTLD_DEFAULT, "pthread_create");
  void* const found = ::dlsym(RTLD_DEFAULT, calls::kThreadBeginsName);
  if (found != nullptr) reinterpret_cast<calls::SetThreadBegins>(found)(&ensure_signal_stack);
  if (found != nullptr && in_one_library(found, first)) return true;
  g_create = reinterpret_cast<calls::CreateThread>(first);
  const calls::Import create{"pthread_create", reinterpret_cast<const void*>(&create_with_stack)};
  return g_create != nullptr && calls::ImportRedirection().redirect({&create, 1}) > 0;
}

// ---- threads that there are ----

// Who is asked, by thread id; 0 once it has been.
constinit std::array<std::atomic<long>, 512> g_asked{};

void on_asked(int /*signal*/, siginfo_t* /*info*/, void* context) {
  const int error = errno;
  const long self = ::syscall(SYS_gettid);
  for (std::atomic<long>& asked : g_asked) {
    if (asked.load() != self) continue;
    give_signal_stack(*static_cast<ucontext_t*>(context));
    asked.store(0);
  }
  errno = error;
}

struct ThreadState {
  bool sleeps = false;
  bool takes_signal = false;
  bool takes_faults = false;  // who blocks SIGSEGV would die of a touch, with any stack
};

// False: the thread has ended.
bool look_at(long thread, ThreadState& state) {
  const auto text = read_text("/proc/self/task/" + std::to_string(thread) + "/status");
  if (!text) return false;
  const auto value = [&](const char* name) {
    const std::size_t at = text->find(name);
    return at == std::string::npos ? std::string_view{} : std::string_view(*text).substr(at + std::strlen(name));
  };
  const std::string_view blocked = value("\nSigBlk:\t");
  std::uint64_t mask = 0;
  std::from_chars(blocked.data(), blocked.data() + std::min<std::size_t>(blocked.size(), 16), mask, 16);
  state.sleeps = value("\nState:\t").starts_with('S');
  state.takes_signal = (mask >> (kSignal - 1) & 1) == 0;
  state.takes_faults = (mask >> (SIGSEGV - 1) & 1) == 0;
  return true;
}

std::vector<long> other_threads() {
  std::vector<long> threads;
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir("/proc/self/task"), &::closedir);
  if (directory == nullptr) return threads;
  const long self = ::syscall(SYS_gettid);
  while (const dirent* const entry = ::readdir(directory.get())) {
    const long thread = std::atol(entry->d_name);
    if (thread > 0 && thread != self) threads.push_back(thread);
  }
  return threads;
}

class Asked {
 public:
  Asked(long thread, std::atomic<long>& cell) : thread_(thread), cell_(&cell) {}

  bool over() const { return over_; }
  void go_on() {
    ThreadState state;
    const bool there = look_at(thread_, state);
    over_ = !there || !state.takes_faults || (sent_ && cell_->load() == 0);
    if (over_ || sent_ || !state.sleeps || !state.takes_signal) return;
    cell_->store(thread_);
    sent_ = ::syscall(SYS_tgkill, ::getpid(), thread_, kSignal) == 0;
  }

 private:
  long thread_;
  std::atomic<long>* cell_;
  bool sent_ = false;
  bool over_ = false;
};

bool see_to_threads(const std::vector<long>& threads) {
  if (threads.empty()) return true;
  if (threads.size() > g_asked.size() || has_handler(current_action(kSignal))) return false;
  struct sigaction action {};
  action.sa_sigaction = &on_asked;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  struct sigaction before {};
  if (::sigaction(kSignal, &action, &before) != 0) return false;
  std::vector<Asked> left;
  for (std::size_t i = 0; i < threads.size(); ++i) left.emplace_back(threads[i], g_asked[i]);
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (!left.empty() && std::chrono::steady_clock::now() < until) {
    for (Asked& asked : left) asked.go_on();
    std::erase_if(left, [](const Asked& asked) { return asked.over(); });
    if (!left.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ::sigaction(kSignal, &before, nullptr);
  return left.empty();
}

enum class Given : int { kNot, kBeing, kSome, kAll };
constinit std::atomic<Given> g_given{Given::kNot};

}  // namespace

void give_threads_signal_stacks() {
  ensure_signal_stack();
  Given none = Given::kNot;
  if (!g_given.compare_exchange_strong(none, Given::kBeing)) return;
  const bool later = see_to_new_threads();
  const bool present = see_to_threads(other_threads());  // after: whoever is made meanwhile has one, or is seen
  g_given.store(later && present ? Given::kAll : Given::kSome);
}

bool threads_have_signal_stacks() { return g_given.load() == Given::kAll; }

}  // namespace ebb
