// See isolated_run.h.
#include "fuzz/isolated_run.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>

#include "ebb/status.h"
#include "fuzz/campaign.h"

namespace ebb::cli {
namespace {

constexpr time_t kHangsS = 30;  // a run takes milliseconds
constexpr const char* kTwoEnds = "two runs came to different ends: the core is not deterministic";

// Of the child's: read when a check has failed, by a handler, in a process that ends there.
const FuzzHistory* g_history = nullptr;

void on_abort(int) {
  std::fprintf(stderr, "its last operations:\n");
  g_history->for_each([](std::size_t i, const char* line) { std::fprintf(stderr, "  %zu: %s\n", i, line); });
  ::signal(SIGABRT, SIG_DFL);
}

// The first line without the values of its operands.
std::string check_in(const std::string& output) {
  const std::string line = output.substr(0, output.find('\n'));
  constexpr std::string_view kBefore = "ebb: internal error at ";
  const std::size_t begin = line.rfind(kBefore, 0) == 0 ? kBefore.size() : 0;
  return line.substr(begin, line.find(" (left ", begin) - begin);
}

}  // namespace

Child::Child(FuzzHistory& history, const std::function<int()>& work) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw Error(Status::kNoMemory, "no pipe for a child process can be made");
  errors_ = FileDescriptor(ends[0]);
  const FileDescriptor write_end(ends[1]);
  std::fflush(nullptr);
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ < 0) throw Error(Status::kNoMemory, "no child process can be started: the limit of processes is reached");
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    ::signal(SIGINT, SIG_IGN);
    ::dup2(write_end.get(), STDERR_FILENO);
    g_history = &history;
    ::signal(SIGABRT, on_abort);
    const int code = work();
    std::fflush(nullptr);
    ::_exit(code);
  }
  ::fcntl(errors_.get(), F_SETFL, O_NONBLOCK);
}

bool Child::read_errors() {
  std::array<char, 4096> part;
  for (;;) {
    const ssize_t count = ::read(errors_.get(), part.data(), part.size());
    if (count > 0) {
      output_.append(part.data(), static_cast<std::size_t>(count));
    } else if (count == 0 || errno != EINTR) {
      return count != 0;
    }
  }
}

void Child::kill() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

Verdict Child::verdict() {
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  read_errors();
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {false, "", output_};
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGVTALRM) return {true, "hangs", output_};
  std::string what = check_in(output_);
  if (what.empty()) what = WIFSIGNALED(status) ? "ended by signal " + std::to_string(WTERMSIG(status)) : "ended";
  return {true, what, output_};
}

int run_twice(const Scenario& scenario, FuzzHistory& history, FuzzRecord* record) {
  const itimerval limit{{0, 0}, {kHangsS, 0}};
  ::setitimer(ITIMER_VIRTUAL, &limit, nullptr);
  FuzzOutcome outcome;
  if (!run_fuzz_twice(scenario, history, outcome)) {
    std::fprintf(stderr, "%s\n", kTwoEnds);
    return 1;
  }
  if (record != nullptr) *record = {scenario.seed, outcome};
  return 0;
}

Verdict run_isolated(const Scenario& scenario) {
  FuzzHistory history;
  Child child(history, [&] { return run_twice(scenario, history, nullptr); });
  while (child.read_errors()) {
    pollfd wait{child.errors(), POLLIN, 0};
    static_cast<void>(::poll(&wait, 1, -1));
  }
  return child.verdict();
}

}  // namespace ebb::cli
