// See mirror_fixture.h.
#include "mirror_fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/time.h>

#include <csignal>
#include <cstdio>

namespace ebb::mirror_test {
namespace {

constexpr int kTicksMax = 60;  // of a second, without the time that the process was stopped

volatile std::sig_atomic_t ticks = 0;

void say(const char* text) { [[maybe_unused]] const auto put = ::write(STDERR_FILENO, text, std::strlen(text)); }

void show(const char* thread, const char* what) {
  char path[128];
  std::snprintf(path, sizeof path, "/proc/self/task/%s/%s", thread, what);
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  char text[2048];
  const ssize_t got = ::read(file, text, sizeof text - 1);
  ::close(file);
  text[got > 0 ? got : 0] = '\0';
  say(what);
  say(": ");
  say(text);
  say("\n");
}

// A signal handler: raw calls only.
void tick(int) {
  ticks = ticks + 1;
  if (ticks < kTicksMax) return;
  ::signal(SIGABRT, SIG_DFL);
  say("\nmirror test: it hangs; its threads:\n");
  const int folder = ::open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  char entries[4096];
  long got = 0;
  while ((got = ::syscall(SYS_getdents64, folder, entries, sizeof entries)) > 0) {
    for (long at = 0; at < got;) {
      unsigned short length = 0;
      std::memcpy(&length, entries + at + 16, sizeof length);
      const char* const name = entries + at + 19;
      if (name[0] != '.') {
        say("thread ");
        say(name);
        say("\n");
        for (const char* what : {"wchan", "syscall", "stack"}) show(name, what);
      }
      at += length;
    }
  }
  ::abort();
}

}  // namespace

void start_watchdog() {
  ticks = 0;
  struct sigaction action {};
  action.sa_handler = tick;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGALRM, &action, nullptr);
  const itimerval every_second{{1, 0}, {1, 0}};
  ::setitimer(ITIMER_REAL, &every_second, nullptr);
}

void stop_watchdog() {
  const itimerval never{};
  ::setitimer(ITIMER_REAL, &never, nullptr);
}

Memory::Memory(std::size_t bytes, int protection, int flags, int fd, std::size_t alignment) : bytes_(bytes) {
  if (alignment == kPage) {
    data_ = static_cast<char*>(::mmap(nullptr, bytes, protection, flags, fd, 0));
    EXPECT_NE(data_, MAP_FAILED);
    return;
  }
  auto* const wide = static_cast<char*>(::mmap(nullptr, bytes + alignment, protection, flags, fd, 0));
  const std::size_t skew = reinterpret_cast<std::uintptr_t>(wide) % alignment;
  data_ = wide + (skew == 0 ? 0 : alignment - skew);
  if (data_ > wide) ::munmap(wide, static_cast<std::size_t>(data_ - wide));
  ::munmap(data_ + bytes, static_cast<std::size_t>(wide + alignment - data_));
}

void fill(void* data, std::size_t bytes, std::uint32_t seed) {
  auto* const words = static_cast<std::uint32_t*>(data);
  for (std::size_t i = 0; i < bytes / 4; ++i) words[i] = static_cast<std::uint32_t>(i) * 7 + seed;
}

bool holds(const void* data, std::size_t bytes, std::uint32_t seed) {
  const auto* const words = static_cast<const volatile std::uint32_t*>(data);
  for (std::size_t i = 0; i < bytes / 4; ++i) {
    if (words[i] != static_cast<std::uint32_t>(i) * 7 + seed) return false;
  }
  return true;
}

std::vector<std::byte> pattern(std::size_t bytes, std::uint32_t seed) {
  std::vector<std::byte> made(bytes);
  fill(made.data(), bytes, seed);
  return made;
}

int pattern_file(std::size_t bytes, std::uint32_t seed) {
  const int file = ::open(testing::TempDir().c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  const auto content = pattern(bytes, seed);
  EXPECT_EQ(::pwrite(file, content.data(), bytes, 0), static_cast<ssize_t>(bytes));
  return file;
}

std::string parameters_name(const testing::TestParamInfo<Parameters>& info) {
  return std::string(std::get<0>(info.param) == DeviceKind::kPrivate ? "Private" : "Coherent") +
         (std::get<1>(info.param) ? "UserMode" : "Full");
}

MirrorOptions MirrorTest::options() const {
  const DeviceKind kind = std::get<0>(GetParam());
  MirrorOptions options;
  options.devices = {kind, kind};
  options.device_bytes = 16 * kMiB;
  options.user_mode_only = user_mode_only();
  options.fault_timeout = std::chrono::minutes(10);  // the machine may be busy, or stopped
  return options;
}

void MirrorTest::SetUp() {
  start_watchdog();
  try {
    mirror_ = Mirror::open(options());
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  if (mirror_->user_mode_only() != user_mode_only()) {
    mirror_.reset();
    GTEST_SKIP() << "full userfaultfd is denied to this process";
  }
}

void MirrorTest::TearDown() {
  mirror_.reset();
  stop_watchdog();
}

bool MirrorTest::device_reads(const void* data, std::size_t bytes, std::uint32_t seed, std::size_t device) {
  std::vector<std::byte> got(bytes);
  const MirrorResult result = mirror_->read(device, data, got);
  EXPECT_TRUE(result.ok()) << name(result.error);
  return holds(got.data(), bytes, seed);
}

MirrorResult MirrorTest::device_writes(void* data, std::size_t bytes, std::uint32_t seed, std::size_t device) {
  return mirror_->write(device, data, pattern(bytes, seed));
}

bool MirrorTest::to_device(void* data, std::size_t bytes, std::size_t device) {
  const MirrorResult result = mirror_->migrate_to_device(device, data, bytes);
  EXPECT_TRUE(result.ok()) << name(result.error) << " at page "
                           << (result.address - reinterpret_cast<std::uintptr_t>(data)) / kPage;
  EXPECT_EQ(result.pages, bytes / kPage);
  return result.ok();
}

std::size_t MirrorTest::on_device(const void* data, std::size_t bytes, std::size_t device) {
  std::size_t count = 0;
  for (const PageView& view : mirror_->snapshot(device, data, bytes)) count += view.on_device ? 1 : 0;
  return count;
}

}  // namespace ebb::mirror_test
