// UringFlash where io_uring is forbidden: it says so and leaves the file to the fallback; and where the kernel refuses
// what is submitted, for a while or for good. What it does elsewhere is in tests/conformance/raw_flash_test.cc.
#include "drivers/uring/uring_flash.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <thread>

#include "base/test/in_a_child.h"
#include "drivers/linux/flash/thread_flash.h"

namespace ebb {
namespace {

constexpr std::uint32_t kDepth = 8;
constexpr std::size_t kBytes = 64 * 1024;
constexpr unsigned kSecondsMax = 60;

// In a child, which the filter is for; 0, or the number of what went wrong.
int run_without_io_uring() {
  if (!forbid(SYS_io_uring_setup, EPERM)) return kSkip;
  FlashFile file = FlashFile::open(default_flash_directory());
  const int fd = file.fd();
  std::unique_ptr<UringFlash> uring;
  if (UringFlash::make(file, 8, uring) != Status::kUnsupported) return 1;
  if (uring != nullptr || file.fd() != fd) return 2;
  if (file.grow(4096) != Status::kOk) return 3;
  return 0;
}

TEST(UringFlashTest, WhereItIsForbiddenTheFileIsLeftToTheFallback) {
  expect_end(in_a_child(kSecondsMax, run_without_io_uring));
}

// A ring of its own with buffers; its members are called by one thread at a time.
struct Ring {
  Ring() : bytes(static_cast<std::byte*>(std::aligned_alloc(4096, kDepth * kBytes)), kDepth * kBytes) {
    FlashFile file = FlashFile::open(default_flash_directory());
    if (file.grow(kDepth * kBytes) == Status::kOk) static_cast<void>(UringFlash::make(file, kDepth, flash));
  }
  ~Ring() {
    flash.reset();
    std::free(bytes.data());
  }
  std::span<std::byte> buffer(std::uint32_t i) const { return bytes.subspan(i * kBytes, kBytes); }
  void submit_all(bool write) const {
    for (std::uint32_t i = 0; i < kDepth; ++i) {
      std::memset(buffer(i).data(), write ? static_cast<int>(i + 1) : 0, kBytes);
      flash->submit({write, i, i * kBytes, buffer(i)});
    }
  }
  // Whether all that was submitted completes, well and once.
  bool complete_all() const {
    std::array<int, kDepth> times{};
    for (std::size_t found = 0; found < kDepth;) {
      std::array<RawCompletion, 3> completions;
      const std::size_t now = flash->poll(completions);
      for (const RawCompletion& completion : std::span(completions).first(now)) {
        if (completion.status != Status::kOk || ++times.at(completion.token) != 1) return false;
      }
      found += now;
      if (now == 0) flash->wait(std::chrono::seconds(1));
    }
    return true;
  }
  bool right() const {
    for (std::uint32_t i = 0; i < kDepth; ++i) {
      const auto value = static_cast<std::byte>(i + 1);
      if (!std::ranges::all_of(buffer(i), [&](std::byte byte) { return byte == value; })) return false;
    }
    return true;
  }

  std::span<std::byte> bytes;
  std::unique_ptr<UringFlash> flash;
};

constexpr std::array kRefusals{EAGAIN, EBUSY, EINTR, ENOMEM, EPERM};

int run_refused_for_good(int error) {
  const Ring ring;
  if (ring.flash == nullptr || !forbid(SYS_io_uring_enter, error)) return kSkip;
  for (const bool write : {true, false}) {
    ring.submit_all(write);
    if (!ring.complete_all()) return 1;
  }
  if (!ring.right()) return 2;
  ring.flash->submit({false, 1, kBytes * kDepth * 16, ring.buffer(1)});  // past the end
  RawCompletion failed;
  while (ring.flash->poll({&failed, 1}) == 0) ring.flash->wait(std::chrono::seconds(1));
  if (failed.status != Status::kIoError) return 3;
  ring.submit_all(true);
  return 0;  // destroys what is in flight
}

TEST(UringFlashTest, WhatTheKernelNeverTakesIsMovedWithoutTheRing) {
  for (const int error : kRefusals) {
    SCOPED_TRACE(std::strerror(error));
    expect_end(in_a_child(kSecondsMax, [error] { return run_refused_for_good(error); }));
  }
}

// A filter is its thread's: what one thread was refused, this one offers again.
int run_refused_at_first(int error) {
  const Ring ring;
  if (ring.flash == nullptr) return kSkip;
  std::atomic<bool> forbidden{true};
  for (const bool write : {true, false}) {
    std::thread([&] {
      forbidden = forbid(SYS_io_uring_enter, error);
      ring.submit_all(write);
    }).join();
    if (!forbidden) return kSkip;
    if (!ring.complete_all()) return 1;
  }
  if (!ring.right()) return 2;
  // And the ring is as good as before: what is withdrawn from it leaves nothing behind, and wake-ups end a wait.
  std::thread([&] {
    forbidden = forbid(SYS_io_uring_enter, error);
    ring.submit_all(false);
    forbidden = ring.complete_all();
  }).join();
  if (!forbidden) return 3;
  ring.submit_all(false);
  if (!ring.complete_all() || !ring.right()) return 4;
  ring.flash->wake();
  const auto begin = std::chrono::steady_clock::now();
  ring.flash->wait(std::chrono::seconds(30));
  return std::chrono::steady_clock::now() - begin < std::chrono::seconds(10) ? 0 : 5;
}

TEST(UringFlashTest, WhatTheKernelRefusesIsOfferedAgain) {
  for (const int error : kRefusals) {
    SCOPED_TRACE(std::strerror(error));
    expect_end(in_a_child(kSecondsMax, [error] { return run_refused_at_first(error); }));
  }
}

TEST(UringFlashTest, BothDriversTakeAnyDepth) {
  for (const std::uint32_t depth : {1u, 7u, 64u}) {
    FlashFile file = FlashFile::open(default_flash_directory());
    std::unique_ptr<UringFlash> uring;
    if (UringFlash::make(file, depth, uring) != Status::kOk) GTEST_SKIP() << "io_uring is not to be had here";
    EXPECT_EQ(uring->depth(), depth);
    FlashFile other = FlashFile::open(default_flash_directory());
    std::unique_ptr<ThreadFlash> threads;
    ASSERT_EQ(ThreadFlash::make(other, depth, threads), Status::kOk);
    EXPECT_EQ(threads->depth(), depth);
  }
}

}  // namespace
}  // namespace ebb
