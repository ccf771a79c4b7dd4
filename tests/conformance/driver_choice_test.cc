// Which drivers Runtime::open() takes: what was asked for, what the machine allows, and what it says when the two
// differ. What a machine forbids is played by a seccomp filter in a child process, so it needs no privilege and leaves
// no trace.
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>

#include "base/test/in_a_child.h"
#include "drivers/linux/flash/flash_file.h"
#include "ebb/runtime.h"

namespace ebb::conformance {
namespace {

constexpr unsigned kSecondsMax = 120;

Options options(const std::string& memory_driver, const std::string& flash_driver) {
  Options options;
  options.memory = 8 * kMiB;
  parse_flash(default_flash_directory() + ":64MiB", options);
  options.block_bytes = 64 * kKiB;
  options.memory_driver = memory_driver;
  options.flash_driver = flash_driver;
  return options;
}

// As in most containers. Without userfaultfd: neither the call nor, for a user who may not open it, the device.
bool forbid_userfaultfd() {
  return forbid(SYS_userfaultfd, EPERM) && (::geteuid() != 0 || ::setresuid(65534, 65534, 65534) == 0);
}
bool forbid_io_uring() { return forbid(SYS_io_uring_setup, EPERM); }

// Writes and reads four times the budget.
bool works(Runtime& runtime) {
  const std::size_t count = 32 * kMiB / sizeof(std::uint64_t);
  auto* const data = static_cast<std::uint64_t*>(runtime.allocate(count * sizeof(std::uint64_t)));
  for (std::size_t i = 0; i < count; ++i) data[i] = i * 3;
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < count; ++i) wrong += data[i] != i * 3 ? 1 : 0;
  runtime.deallocate(data);
  return wrong == 0;
}

// Opens a runtime in a child that may not do everything; what became of it, in one line: its description, or its error.
template <typename Prepare>
std::string outcome(const Options& wanted, Prepare prepare) {
  std::array<int, 2> ends;
  EXPECT_EQ(::pipe(ends.data()), 0);
  const auto open = [&] {
    std::string text;
    try {
      if (!prepare()) return kSkip;
      const auto runtime = Runtime::open(wanted);
      text = (works(*runtime) ? "works: " : "wrong: ") + runtime->description();
    } catch (const Error& error) {
      text = std::string("error: ") + name(error.status()) + ": " + error.what();
    }
    const ssize_t written = ::write(ends[1], text.data(), text.size());
    return written == static_cast<ssize_t>(text.size()) ? 0 : 1;
  };
  std::string text;
  const int ended = in_a_child(kSecondsMax, open, [&] {
    ::close(ends[1]);
    std::array<char, 512> piece;
    for (ssize_t count = 0; (count = ::read(ends[0], piece.data(), piece.size())) > 0;) {
      text.append(piece.data(), static_cast<std::size_t>(count));
    }
  });
  ::close(ends[0]);
  if (ended != 0 && text.empty()) text = "ended with " + std::to_string(ended);
  return text;
}

bool nothing() { return true; }

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class DriverChoiceTest : public testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "the thread sanitizer makes system calls that seccomp and another user would forbid";
#endif
  }
};

TEST_F(DriverChoiceTest, UnknownNamesAreRefusedWithTheChoices) {
  const std::string memory = outcome(options("mvoe", "auto"), nothing);
  EXPECT_TRUE(contains(memory, "error: invalid") && contains(memory, "mvoe")) << memory;
  EXPECT_TRUE(contains(memory, "auto, move or remap")) << memory;
  const std::string flash = outcome(options("auto", "sync"), nothing);
  EXPECT_TRUE(contains(flash, "error: invalid") && contains(flash, "sync")) << flash;
  EXPECT_TRUE(contains(flash, "auto, uring or threads")) << flash;
}

TEST_F(DriverChoiceTest, TheFallbacksWorkWhenTheyAreAskedFor) {
  const std::string text = outcome(options("remap", "threads"), nothing);
  EXPECT_TRUE(contains(text, "works: memfd remapping") && contains(text, "; threads")) << text;
}

TEST_F(DriverChoiceTest, WithoutIoUringThreadsDoTheTransfers) {
  const std::string text = outcome(options("remap", "auto"), forbid_io_uring);
  EXPECT_TRUE(contains(text, "works: ") && contains(text, "; threads")) << text;
}

TEST_F(DriverChoiceTest, IoUringThatIsForbiddenIsNamedWithTheRemedy) {
  const std::string text = outcome(options("auto", "uring"), forbid_io_uring);
  EXPECT_TRUE(contains(text, "error: unsupported") && contains(text, "kernel.io_uring_disabled")) << text;
  EXPECT_TRUE(contains(text, "seccomp")) << text;
}

TEST_F(DriverChoiceTest, WithoutUserfaultfdMemoryIsRemapped) {
  const std::string text = outcome(options("auto", "auto"), forbid_userfaultfd);
  EXPECT_TRUE(contains(text, "works: memfd remapping")) << text;
}

TEST_F(DriverChoiceTest, UserfaultfdThatIsForbiddenIsNamedWithTheRemedy) {
  const std::string text = outcome(options("move", "auto"), forbid_userfaultfd);
  EXPECT_TRUE(contains(text, "error: unsupported") && contains(text, "vm.unprivileged_userfaultfd=1")) << text;
}

TEST_F(DriverChoiceTest, MoreBlocksThanMappingsAreNamedWithTheRemedy) {
  Options many = options("remap", "threads");
  many.memory = kGiB;
  many.block_bytes = 4 * kKiB;
  const std::string text = outcome(many, nothing);
  if (contains(text, "works: ")) GTEST_SKIP() << "this machine allows that many mappings";
  EXPECT_TRUE(contains(text, "error: unsupported") && contains(text, "vm.max_map_count=")) << text;
}

}  // namespace
}  // namespace ebb::conformance
