// Runs the user's program as a child that notices nothing of `ebb`: same process group, terminal, descriptors and
// signal dispositions. Main thread, one child at a time.
//
// Signals while the child runs: SIGINT and terminal-made SIGQUIT reach the child from the terminal and are ignored
// here; SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 sent to `ebb` are forwarded; stop and continue keep their usual
// effect. From block_signals() on nothing but SIGKILL and SIGSTOP interrupts `ebb`, so what it must clean up, it does.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace ebb::cli {

// What may happen while the child runs, for whoever draws on the terminal.
class ChildObserver {
 public:
  virtual ~ChildObserver() = default;
  virtual void tick() = 0;       // kTicksPerSecond times a second
  virtual void resized() = 0;    // the terminal has a new size
  virtual void suspended() = 0;  // about to stop: leave the terminal as it was
  virtual void resumed() = 0;
};

inline constexpr int kTicksPerSecond = 4;

struct ChildOutcome {
  // What `ebb` exits with: the child's code, 128 + signal when a signal ended it, 127 or 126 when it could not start.
  int exit_code = 0;
  int signal = 0;           // that ended the child; 0: none
  std::string start_error;  // why it could not be started; empty: it was
  double wall_seconds = 0;
};

// This process's environment with these variables, names and values, in it.
using Variables = std::vector<std::pair<std::string, std::string>>;
std::vector<std::string> environment_with(const Variables& variables);

// Takes delivery of the signals named above for the rest of this process's life.
void block_signals();

// Starts `command` with `environment` (NAME=VALUE each) and waits until it has ended. After block_signals().
ChildOutcome run_child(const std::vector<std::string>& command, const std::vector<std::string>& environment,
                       ChildObserver* observer);

// Ends this process by `signal`, without a core dump of its own.
[[noreturn]] void die_by_signal(int signal);

}  // namespace ebb::cli
