// See terminal_screen.h. Signals are read from a signalfd, so that everything here runs in ordinary context. Ctrl-C and
// Ctrl-Z remain signals; Ctrl-S and Ctrl-Q do not stop the output.
#include "top/terminal_screen.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "ebb/status.h"
#include "text.h"

namespace ebb::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kEnter = "\033[?1049h\033[?25l\033[?7l";  // alternate screen, no cursor, no wrapping
constexpr const char* kLeave = "\033[0m\033[?7h\033[?25h\033[?1049l";
constexpr std::chrono::milliseconds kMoment{50};  // in which the rest of a key's sequence comes

sigset_t signals_taken() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGTSTP, SIGCONT}) sigaddset(&set, signal);
  return set;
}

const char* begin_of(Line::Look look, bool colour) {
  switch (look) {
    case Line::Look::kTitle: return "\033[1m";
    case Line::Look::kHead: return colour ? "\033[30;42m" : "\033[7m";
    case Line::Look::kSelected: return colour ? "\033[30;46m" : "\033[7m";
    case Line::Look::kFaint: return "\033[2m";
    case Line::Look::kPlain: break;
  }
  return "";
}

}  // namespace

bool TerminalScreen::possible() { return ::isatty(STDIN_FILENO) == 1 && draws(STDOUT_FILENO); }

TerminalScreen::TerminalScreen() : colour_(wants_colour(STDOUT_FILENO)) {
  const sigset_t taken = signals_taken();
  ::sigprocmask(SIG_BLOCK, &taken, &before_);
  signals_ = FileDescriptor(::signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_.valid() || ::tcgetattr(STDIN_FILENO, &usual_) != 0) {
    const std::string why = std::strerror(errno);
    ::sigprocmask(SIG_SETMASK, &before_, nullptr);
    throw Error(Status::kIoError, fmt::format("the terminal cannot be drawn on: {}; try ebb top --once", why));
  }
  enter();
}

TerminalScreen::~TerminalScreen() {
  leave();
  // What asked for the end is still pending where it was not read: now it may have it.
  ::sigprocmask(SIG_SETMASK, &before_, nullptr);
}

void TerminalScreen::enter() {
  if (entered_) return;
  termios raw = usual_;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  raw.c_iflag &= ~static_cast<tcflag_t>(IXON | ICRNL);
  raw.c_cc[VMIN] = 0;
  raw.c_cc[VTIME] = 0;
  ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  write_all(STDOUT_FILENO, kEnter);
  entered_ = true;
  measure();
}

void TerminalScreen::leave() {
  if (!entered_) return;
  entered_ = false;
  write_all(STDOUT_FILENO, kLeave);
  ::tcsetattr(STDIN_FILENO, TCSANOW, &usual_);
}

void TerminalScreen::measure() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0) return;
  rows_ = size.ws_row;
  columns_ = size.ws_col;
}

// As if nobody had intervened; goes on in the next line when it is continued.
void TerminalScreen::stop_here() {
  leave();
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTSTP);
  ::raise(SIGTSTP);
  ::sigprocmask(SIG_UNBLOCK, &stop, nullptr);
  ::sigprocmask(SIG_BLOCK, &stop, nullptr);
  enter();
}

TerminalScreen::Event TerminalScreen::take_signal() {
  signalfd_siginfo info;
  if (::read(signals_.get(), &info, sizeof info) != static_cast<ssize_t>(sizeof info)) return {};
  switch (const int signal = static_cast<int>(info.ssi_signo)) {
    case SIGWINCH: measure(); return {Event::Kind::kRedraw, 0};
    case SIGTSTP: stop_here(); return {Event::Kind::kRedraw, 0};
    case SIGCONT:  // perhaps of a stop that could not be caught, after which the shell has changed the terminal
      leave();
      enter();
      return {Event::Kind::kRedraw, 0};
    default: return {Event::Kind::kSignal, signal};
  }
}

TerminalScreen::Event TerminalScreen::wait(Clock::time_point deadline, Keys& keys) {
  if (keys.unsettled()) deadline = std::min(deadline, Clock::now() + kMoment);
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
  std::array<pollfd, 2> waited{{{signals_.get(), POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}}};
  ::poll(waited.data(), waited.size(), static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
  if ((waited[0].revents & POLLIN) != 0) return take_signal();
  if (waited[1].revents == 0) return {};
  std::array<char, 256> bytes;
  const ssize_t count = ::read(STDIN_FILENO, bytes.data(), bytes.size());
  if (count <= 0) return {Event::Kind::kClosed, 0};
  keys.feed(std::string_view(bytes.data(), static_cast<std::size_t>(count)));
  return {Event::Kind::kKeys, 0};
}

void TerminalScreen::draw(const std::vector<Line>& lines) {
  pollfd terminal{STDOUT_FILENO, POLLOUT, 0};
  if (::poll(&terminal, 1, 0) != 1) return;
  std::string frame = "\033[H";
  const std::size_t count = std::min(lines.size(), rows_);
  for (std::size_t i = 0; i < count; ++i) {
    const std::string text = fit(lines[i].text, columns_);
    const char* const begin = begin_of(lines[i].look, colour_);
    const bool bar = lines[i].look == Line::Look::kHead || lines[i].look == Line::Look::kSelected;
    // A bar reaches to the end: the rest of the line takes the background only where the terminal erases with it.
    const std::size_t width = width_of(text);
    frame += begin + text + (bar ? std::string(columns_ - std::min(columns_, width), ' ') : "");
    frame += *begin != '\0' ? "\033[0m" : "";
    frame += bar ? "" : "\033[K";
    frame += i + 1 < rows_ ? "\r\n" : "";
  }
  if (count < rows_) frame += "\033[J";
  write_all(STDOUT_FILENO, frame);
}

}  // namespace ebb::cli
