// TerminalScreen: the whole of a terminal, for a program that redraws it: its alternate screen, without a cursor, and
// keys as they are pressed. Signals that end or stop a program are blocked while it exists and reported by wait(), so
// that the terminal is given back first; the destructor gives it back in any case. Main thread; one at a time.
#pragma once

#include <signal.h>
#include <termios.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "drivers/linux/system/system_files.h"
#include "top/keys.h"
#include "top/top_table.h"

namespace ebb::cli {

class TerminalScreen {
 public:
  // Whether input and output are a terminal that understands what is sent to it.
  static bool possible();

  // Throws Error: the terminal refuses.
  TerminalScreen();
  ~TerminalScreen();
  TerminalScreen(const TerminalScreen&) = delete;
  TerminalScreen& operator=(const TerminalScreen&) = delete;

  // Of what happened until `deadline`, the first.
  struct Event {
    enum class Kind { kNothing, kKeys, kRedraw, kSignal, kClosed } kind = Kind::kNothing;
    int signal = 0;
  };
  Event wait(std::chrono::steady_clock::time_point deadline, Keys& keys);

  std::size_t rows() const { return rows_; }
  std::size_t columns() const { return columns_; }
  // One frame; lines that find no room are left out, and so is the whole frame where the terminal takes nothing now.
  void draw(const std::vector<Line>& lines);

 private:
  void enter();
  void leave();
  void measure();
  void stop_here();
  Event take_signal();

  const bool colour_;
  sigset_t before_;  // signals that were blocked
  FileDescriptor signals_;
  termios usual_{};
  bool entered_ = false;
  std::size_t rows_ = 24;
  std::size_t columns_ = 80;
};

}  // namespace ebb::cli
