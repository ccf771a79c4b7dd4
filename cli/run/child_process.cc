// See child_process.h. Signals are blocked and read from a signalfd, so everything here runs in ordinary context. The
// child reports a failed exec through a pipe that a successful exec closes.
#include "run/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <string_view>

#include "drivers/linux/system/system_files.h"
#include "ebb/status.h"

extern char** environ;

namespace ebb::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kNotFoundCode = 127;
constexpr int kNotExecutableCode = 126;
constexpr std::chrono::milliseconds kTick{1000 / kTicksPerSecond};

// What this process was started with and the child must get back.
struct Inherited {
  sigset_t mask;
  struct sigaction on_child;
  struct sigaction on_pipe;
};
Inherited inherited;

sigset_t signals_taken() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH, SIGTSTP, SIGCONT}) {
    sigaddset(&set, signal);
  }
  return set;
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

[[noreturn]] void become(char** command, char** environment, int report_fd) {
  ::sigaction(SIGCHLD, &inherited.on_child, nullptr);
  ::sigaction(SIGPIPE, &inherited.on_pipe, nullptr);
  ::sigprocmask(SIG_SETMASK, &inherited.mask, nullptr);
  ::execvpe(command[0], command, environment);
  const int error = errno;
  [[maybe_unused]] const ssize_t written = ::write(report_fd, &error, sizeof error);
  ::_exit(kNotFoundCode);
}

// The errno of a failed exec; nothing once the program runs.
std::optional<int> exec_error(int report_fd) {
  int error = 0;
  ssize_t count = 0;
  do {
    count = ::read(report_fd, &error, sizeof error);
  } while (count < 0 && errno == EINTR);
  if (count == sizeof error) return error;
  return std::nullopt;
}

// A stop asked for at the terminal: hand the terminal back, and stop as if nobody had intervened. SIGCONT announces the
// return; where stopping is impossible, the next tick takes the terminal again.
void stop_here(ChildObserver* observer) {
  if (observer != nullptr) observer->suspended();
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTSTP);
  ::raise(SIGTSTP);
  ::sigprocmask(SIG_UNBLOCK, &stop, nullptr);  // stops on this line, unless nobody could continue us
  ::sigprocmask(SIG_BLOCK, &stop, nullptr);
}

void handle(const signalfd_siginfo& info, pid_t child, ChildObserver* observer) {
  const int signal = static_cast<int>(info.ssi_signo);
  switch (signal) {
    case SIGTERM:
    case SIGHUP:
    case SIGUSR1:
    case SIGUSR2: ::kill(child, signal); break;
    case SIGQUIT:
      if (info.ssi_code != SI_KERNEL) ::kill(child, signal);  // the terminal has sent it to the child as well
      break;
    case SIGWINCH:
      if (observer != nullptr) observer->resized();
      break;
    case SIGTSTP: stop_here(observer); break;
    case SIGCONT:
      if (observer != nullptr) observer->resumed();
      break;
    default:  // SIGINT is the child's to decide about; SIGCHLD only wakes the loop
      break;
  }
}

void handle_pending(int signal_fd, pid_t child, ChildObserver* observer) {
  signalfd_siginfo info;
  while (::read(signal_fd, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) handle(info, child, observer);
}

// Reaps whatever has ended: as the first process of a container `ebb` also inherits orphans. The wait status of `child`
// once that is among them.
std::optional<int> reap(pid_t child) {
  std::optional<int> ended;
  for (;;) {
    int status = 0;
    const pid_t process = ::waitpid(-1, &status, WNOHANG);
    if (process <= 0) return ended;
    if (process == child) ended = status;
  }
}

int wait_for(pid_t child, int signal_fd, ChildObserver* observer) {
  Clock::time_point next_tick = Clock::now();
  for (;;) {
    int timeout_ms = -1;
    if (observer != nullptr) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(next_tick - Clock::now());
      timeout_ms = static_cast<int>(std::max<std::int64_t>(0, left.count()));
    }
    pollfd waiting{signal_fd, POLLIN, 0};
    ::poll(&waiting, 1, timeout_ms);
    handle_pending(signal_fd, child, observer);
    if (const auto status = reap(child)) return *status;
    if (observer != nullptr && Clock::now() >= next_tick) {
      observer->tick();
      next_tick = Clock::now() + kTick;
    }
  }
}

}  // namespace

std::vector<std::string> environment_with(const Variables& variables) {
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const bool replaced = std::any_of(variables.begin(), variables.end(), [text](const auto& variable) {
      return text.rfind(variable.first + "=", 0) == 0;
    });
    if (!replaced) environment.emplace_back(text);
  }
  for (const auto& [name, value] : variables) environment.push_back(name + "=" + value);
  return environment;
}

void block_signals() {
  const sigset_t taken = signals_taken();
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  ::sigaction(SIGCHLD, &standard, &inherited.on_child);  // some parents ignore it, and then nothing can be waited for
  standard.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &standard, &inherited.on_pipe);  // a summary that nobody reads is no reason to die
  ::sigprocmask(SIG_BLOCK, &taken, &inherited.mask);
}

ChildOutcome run_child(const std::vector<std::string>& command, const std::vector<std::string>& environment,
                       ChildObserver* observer) {
  const sigset_t taken = signals_taken();
  const FileDescriptor signals(::signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
  int ends[2];
  if (!signals.valid() || ::pipe2(ends, O_CLOEXEC) != 0) {
    throw Error(Status::kIoError, fmt::format("cannot watch a child process: {}", explain(errno)));
  }
  const FileDescriptor report(ends[0]);
  FileDescriptor report_writer(ends[1]);
  const auto arguments = pointers(command);
  const auto variables = pointers(environment);

  const Clock::time_point start = Clock::now();
  const pid_t child = ::fork();
  if (child < 0) {
    throw Error(Status::kNoMemory, fmt::format("cannot start a process: {}", explain(errno)));
  }
  if (child == 0) become(const_cast<char**>(arguments.data()), const_cast<char**>(variables.data()), ends[1]);
  report_writer.reset();

  ChildOutcome outcome;
  if (const auto error = exec_error(report.get())) {
    ::waitpid(child, nullptr, 0);
    const bool missing = *error == ENOENT;
    outcome.exit_code = missing ? kNotFoundCode : kNotExecutableCode;
    outcome.start_error = missing ? fmt::format("'{}': command not found", command[0])
                                  : fmt::format("'{}' cannot be executed: {}", command[0], std::strerror(*error));
    return outcome;
  }
  const int status = wait_for(child, signals.get(), observer);
  outcome.wall_seconds = std::chrono::duration<double>(Clock::now() - start).count();
  outcome.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  outcome.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return outcome;
}

void die_by_signal(int signal) {
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  ::prctl(PR_SET_DUMPABLE, 0);  // a core pattern that pipes to a program disregards the limit
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  ::sigaction(signal, &standard, nullptr);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  ::raise(signal);
  ::sigprocmask(SIG_UNBLOCK, &set, nullptr);
  ::_exit(128 + signal);  // the first process of a container survives its own signals
}

}  // namespace ebb::cli
