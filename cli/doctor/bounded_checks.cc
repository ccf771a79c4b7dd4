// See bounded_checks.h. The child leads a process group, so that a helper it started dies with it; it dies with us if
// we are interrupted. A child stuck in the kernel cannot be killed: we go on without it.
#include "doctor/bounded_checks.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <exception>

#include "drivers/linux/system/system_files.h"
#include "ebb/status.h"
#include "json_text.h"

namespace ebb::cli {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

constexpr int kPollMs = 250;

Check lost(const CheckTask& task, const std::string& why) {
  Check check{task.id, task.title, task.when_lost, why, "", Json::object()};
  check.remedy = "run `ebb doctor` again; if it stays, this part of the machine does not work";
  return check;
}

[[noreturn]] void answer(const CheckTask& task, int fd) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  Json list = Json::array();
  try {
    for (const Check& check : task.body()) list.push_back(to_json(check));
  } catch (const std::exception& error) {
    list = Json::array({to_json(lost(task, error.what()))});
  }
  write_all(fd, json_line(list));
  ::_exit(0);
}

// What the child wrote until it closed its end, or nothing when the limit passed.
bool collect(int fd, Clock::time_point start, const CheckTask& task,
             const std::function<void(std::chrono::seconds)>& waiting, std::string& text) {
  std::array<char, 4096> piece;
  for (;;) {
    const auto passed = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - start);
    if (passed >= task.limit) return false;
    pollfd source{fd, POLLIN, 0};
    if (::poll(&source, 1, kPollMs) <= 0) {
      waiting(passed);
      continue;
    }
    const ssize_t count = ::read(fd, piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return true;
    text.append(piece.data(), static_cast<std::size_t>(count));
  }
}

std::string death(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  if (!WIFSIGNALED(status)) return fmt::format("the check gave no answer (exit code {})", WEXITSTATUS(status));
  const int signal = WTERMSIG(status);
  return fmt::format("the check was killed by signal {} ({}){}", signal, ::strsignal(signal),
                     signal == SIGSYS ? ": a seccomp filter forbids it" : "");
}

}  // namespace

std::vector<Check> run_bounded(const CheckTask& task, const std::function<void(std::chrono::seconds)>& waiting) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    throw Error(Status::kIoError, fmt::format("cannot create a pipe: {}", std::strerror(errno)));
  }
  const FileDescriptor reader(ends[0]);
  FileDescriptor writer(ends[1]);
  const Clock::time_point start = Clock::now();
  waiting(std::chrono::seconds(0));
  const pid_t child = ::fork();
  if (child < 0) throw Error(Status::kNoMemory, fmt::format("cannot start a process: {}", std::strerror(errno)));
  if (child == 0) answer(task, writer.get());
  writer.reset();

  std::string text;
  if (!collect(reader.get(), start, task, waiting, text)) {
    ::kill(-child, SIGKILL);
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, WNOHANG);
    return {lost(task, fmt::format("no answer within {} s", task.limit.count()))};
  }
  const Json list = Json::parse(text, nullptr, false);
  const std::string cause = death(child);
  if (!list.is_array()) return {lost(task, cause)};
  std::vector<Check> checks;
  for (const Json& json : list) checks.push_back(check_from_json(json));
  return checks;
}

}  // namespace ebb::cli
