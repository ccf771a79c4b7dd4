// What a program, another process or the kernel may do to managed memory by system calls: no driver may take it for an
// error of its own. The rows of the table in docs/design/0016 that a driver carries by itself, whoever makes the call.
//
// Each case runs in a child: locks, protections and holes end with it. A test that hangs is ended by an alarm.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <functional>

#include "base/test/in_a_child.h"
#include "pager.h"
#include "space_drivers.h"

namespace ebb::conformance {
namespace {

constexpr unsigned kSecondsMax = 60;
constexpr std::uint32_t kBlocks = 12;
constexpr std::uint32_t kFrames = 4;
constexpr std::size_t kPage = 4096;

// From kernels newer than the header of Debian 12.
constexpr int kGuardInstall = 102;
constexpr int kGuardRemove = 103;
constexpr int kCollapse = 25;

// A space with all blocks filled, and a pager that moves them.
class World {
 public:
  explicit World(const SpaceCase& tried) : bytes_(tried.block_bytes) {
    std::string reason;
    memory_ = make_space(tried.driver, bytes_, kBlocks, kFrames, reason);
    if (memory_ == nullptr) return;
    pager_ = std::make_unique<Pager>(*memory_, bytes_, kBlocks, kFrames);
    for (std::uint32_t block = 0; block < kBlocks; ++block) write(block);
  }
  bool valid() const { return memory_ != nullptr; }
  Pager& pager() { return *pager_; }
  std::size_t bytes() const { return bytes_; }
  std::byte* at(std::uint32_t block, std::size_t offset = 0) const { return memory_->base() + block * bytes_ + offset; }
  volatile std::uint64_t* words(std::uint32_t block) const { return reinterpret_cast<std::uint64_t*>(at(block)); }

  void write(std::uint32_t block) {
    for (std::size_t i = 0; i < bytes_ / 8; ++i) words(block)[i] = value(block, i);
  }
  // Whether every word but those of [from, from + bytes) is as it was written, and those are what `within` says.
  bool right(std::uint32_t block, std::size_t from = 0, std::size_t bytes = 0, bool zeros = true) const {
    for (std::size_t i = 0; i < bytes_ / 8; ++i) {
      const bool inside = i * 8 >= from && i * 8 < from + bytes;
      if (words(block)[i] != (inside && zeros ? 0 : value(block, i))) return false;
    }
    return true;
  }
  bool all_right(std::uint32_t except = kBlocks) const {
    for (std::uint32_t block = 0; block < kBlocks; ++block) {
      if (block != except && !right(block)) return false;
    }
    return true;
  }
  // Makes a block resident, or absent.
  void bring(std::uint32_t block) { static_cast<void>(*words(block)); }
  bool send_away(std::uint32_t block) { return pager_->evict(block) == Status::kOk && !pager_->resident(block); }

 private:
  static std::uint64_t value(std::uint32_t block, std::size_t word) { return (std::uint64_t{block} << 40) + word + 1; }

  std::size_t bytes_;
  std::unique_ptr<SpaceMemory> memory_;
  std::unique_ptr<Pager> pager_;
};

class SpaceCallsTest : public testing::TestWithParam<SpaceCase> {
 protected:
  void SetUp() override {
    if (kThreadSanitizer) GTEST_SKIP() << "the thread sanitizer starts no threads after fork";
  }
  // Runs `body` in a child; it returns 0, or the number of what went wrong.
  static void run(const std::function<int(World&)>& body) {
    std::fflush(nullptr);
    expect_end(in_a_child(kSecondsMax, [&] {
      World world(GetParam());
      return world.valid() ? body(world) : kSkip;
    }));
  }
  static bool moves() { return GetParam().driver == SpaceDriver::kMove; }
};

TEST_P(SpaceCallsTest, PagesThatTheProgramDiscardsAreZerosAndTheOthersStay) {
  run([](World& world) {
    const std::size_t from = world.bytes() > kPage ? kPage : 0;
    world.bring(1);
    if (::madvise(world.at(1, from), kPage, MADV_DONTNEED) != 0) return 1;
    // Memory of the fallback is shared memory for the kernel, which keeps it.
    if (!world.right(1, from, kPage, moves())) return 2;
    world.bring(2);
    if (::madvise(world.at(2, from), kPage, MADV_DONTNEED) != 0) return 3;
    if (!world.send_away(2)) return 4;
    if (!world.right(2, from, kPage, moves())) return 5;
    world.bring(3);
    if (::madvise(world.at(3), world.bytes(), MADV_DONTNEED) != 0) return 6;
    if (!world.send_away(3)) return 7;
    return world.right(3, 0, world.bytes(), moves()) && world.right(4) ? 0 : 8;
  });
}

TEST_P(SpaceCallsTest, AdviceChangesNothingOfWhatIsThere) {
  run([](World& world) {
    constexpr int kAdvice[] = {MADV_NORMAL,     MADV_RANDOM,    MADV_SEQUENTIAL,  MADV_WILLNEED, MADV_DONTFORK,
                               MADV_DOFORK,     MADV_MERGEABLE, MADV_UNMERGEABLE, MADV_HUGEPAGE, MADV_NOHUGEPAGE,
                               MADV_DONTDUMP,   MADV_DODUMP,    MADV_COLD,        MADV_PAGEOUT,  kCollapse,
                               MADV_KEEPONFORK, MADV_WIPEONFORK};
    for (const bool resident : {true, false}) {
      for (const int advice : kAdvice) {
        for (const std::size_t bytes : {kPage, world.bytes()}) {
          if (resident) world.bring(5);
          if (!resident && !world.send_away(5)) return 1;
          static_cast<void>(::madvise(world.at(5), bytes, advice));
          if (!world.right(5) || !world.all_right()) return 100 + advice;
        }
      }
      // Whatever it was told, it moves.
      for (const int advice : {MADV_DONTFORK, MADV_NOHUGEPAGE, MADV_HUGEPAGE, MADV_DODUMP}) {
        static_cast<void>(::madvise(world.at(5), kPage, advice));
        world.bring(5);
        if (!world.send_away(5)) return 2;
        if (!world.right(5)) return 3;
      }
    }
    return 0;
  });
}

TEST_P(SpaceCallsTest, LockedMemoryStaysAndMovesAgainWhenUnlocked) {
  run([](World& world) {
    world.bring(6);
    if (::syscall(SYS_mlock, world.at(6), kPage) != 0) return kSkip;  // sanitizers make mlock() nothing
    const Status status = world.pager().evict(6);
    if (moves() && (status != Status::kBusy || !world.pager().resident(6))) return 1;
    if (!world.right(6) || !world.all_right()) return 2;
    if (::syscall(SYS_munlock, world.at(6), kPage) != 0) return 3;
    world.bring(6);
    if (!world.send_away(6) || !world.right(6)) return 4;
    return 0;
  });
}

TEST_P(SpaceCallsTest, AnAbsentBlockCanBeLocked) {
  run([](World& world) {
    if (!world.send_away(7)) return 1;
    // Where the kernel's touch of it is not served, the call fails as it does for memory that cannot be had.
    static_cast<void>(::syscall(SYS_mlock, world.at(7), world.bytes()));
    if (!world.right(7)) return 2;
    if (::syscall(SYS_munlock, world.at(7), world.bytes()) != 0) return 3;
    return world.all_right() && world.send_away(7) && world.right(7) ? 0 : 4;
  });
}

TEST_P(SpaceCallsTest, AllMemoryOfTheProcessCanBeLocked) {
  run([](World& world) {
#if defined(__SANITIZE_ADDRESS__)
    return kSkip;  // terabytes of shadow would be populated
#endif
    if (::mlockall(MCL_CURRENT) != 0) return kSkip;
    for (int round = 0; round < 2; ++round) {
      if (!world.all_right()) return 1;
    }
    ::munlockall();
    for (std::uint32_t block = 0; block < kBlocks; ++block) {
      if (!world.send_away(block) || !world.right(block)) return 2;
    }
    return world.all_right() ? 0 : 3;
  });
}

volatile std::sig_atomic_t g_segv = 0;
std::byte* g_page = nullptr;

TEST_P(SpaceCallsTest, ProtectedMemoryKeepsItsContentAndItsProtection) {
  run([](World& world) {
    world.bring(8);
    if (::mprotect(world.at(8), kPage, PROT_READ) != 0) return 1;
    if (!world.right(8)) return 2;
    static_cast<void>(world.pager().evict(8));
    if (!world.right(8) || !world.all_right()) return 3;
    if (::mprotect(world.at(8), kPage, PROT_READ | PROT_WRITE) != 0) return 4;
    world.bring(8);
    if (!world.send_away(8) || !world.right(8)) return 5;
    // Who touches what the program has closed gets its own signal, and goes on when it is open.
    struct sigaction action {};
    action.sa_handler = [](int) {
      g_segv = g_segv + 1;
      ::mprotect(g_page, kPage, PROT_READ | PROT_WRITE);
    };
    g_page = world.at(9);
    // The fallback's handler is in front of this one only where it was installed after it.
    if (!moves()) return world.all_right() ? 0 : 6;
    ::sigaction(SIGSEGV, &action, nullptr);
    world.bring(9);
    if (::mprotect(world.at(9), kPage, PROT_NONE) != 0) return 7;
    if (!world.right(9) || g_segv != 1) return 8;
    if (!world.send_away(9)) return 9;
    if (::mprotect(world.at(9), kPage, PROT_NONE) != 0) return 10;
    if (!world.right(9) || g_segv != 2) return 11;
    return world.all_right() ? 0 : 12;
  });
}

TEST_P(SpaceCallsTest, AProtectionOfTheProgramsEndsItAsItWouldWithoutUs) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the address sanitizer has a handler that ends it in its own way";
#endif
  if (kThreadSanitizer) GTEST_SKIP() << "the thread sanitizer starts no threads after fork";
  const auto closed = [] {
    ::alarm(kSecondsMax);
    World world(GetParam());
    ::signal(SIGBUS, SIG_DFL);
    if (!world.valid()) ::raise(SIGSEGV);
    world.bring(3);
    ::mprotect(world.at(3), kPage, PROT_NONE);
    world.bring(3);
  };
  EXPECT_EXIT(closed(), testing::KilledBySignal(SIGSEGV), "");
}

TEST_P(SpaceCallsTest, WhatIsUnmappedIsGoneAndTheRestGoesOn) {
  if (GetParam().block_bytes == kPage) GTEST_SKIP() << "a block of one page is there or not";
  run([](World& world) {
    const auto rest = [&](std::uint32_t block) {
      for (std::size_t i = kPage / 8; i < world.bytes() / 8; ++i) {
        if (world.words(block)[i] != (std::uint64_t{block} << 40) + i + 1) return false;
      }
      return true;
    };
    world.bring(1);
    if (::munmap(world.at(1), kPage) != 0) return 1;
    if (!rest(1)) return 2;
    static_cast<void>(world.pager().evict(1));
    if (!world.all_right(1) || !rest(1)) return 3;
    if (!world.send_away(2)) return 4;
    if (::munmap(world.at(2), kPage) != 0) return 5;
    // The fallback maps the block anew, as a whole.
    return rest(2) ? 0 : 6;
  });
}

TEST_P(SpaceCallsTest, GuardPagesStayWhatTheyAre) {
  if (!moves()) GTEST_SKIP() << "guards are for private memory";
  run([](World& world) {
    world.bring(1);
    if (::madvise(world.at(1), kPage, kGuardInstall) != 0) return kSkip;  // before Linux 6.13
    static_cast<void>(world.pager().evict(1));
    if (::madvise(world.at(1), kPage, kGuardRemove) != 0) return 1;
    if (!world.right(1, 0, kPage)) return 2;
    if (!world.send_away(1) || !world.right(1, 0, kPage)) return 3;
    if (!world.send_away(2)) return 4;
    if (::madvise(world.at(2), kPage, kGuardInstall) != 0) return 5;
    if (world.bytes() > kPage) static_cast<void>(world.words(2)[kPage / 8]);
    if (::madvise(world.at(2), kPage, kGuardRemove) != 0) return 6;
    static_cast<void>(world.words(2)[0]);
    for (std::size_t i = kPage / 8; i < world.bytes() / 8; ++i) {
      if (world.words(2)[i] != (std::uint64_t{2} << 40) + i + 1) return 7;
    }
    return world.all_right(2) ? world.right(1, 0, kPage) ? 0 : 8 : 0;
  });
}

// Pages that a child has got by copy-on-write belong to two until somebody writes.
TEST_P(SpaceCallsTest, PagesSharedWithAChildStayUntilTheyAreWritten) {
  if (!moves()) GTEST_SKIP() << "the fallback's memory is never private";
  run([](World& world) {
    world.bring(4);
    if (::madvise(world.at(4), world.bytes(), MADV_DOFORK) != 0) return 1;
    const pid_t child = ::fork();
    if (child == 0) {
      ::pause();
      ::_exit(0);
    }
    static_cast<void>(world.pager().evict(4));
    const bool right = world.right(4) && world.all_right();
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    ::madvise(world.at(4), world.bytes(), MADV_DONTFORK);
    if (!right) return 2;
    world.bring(4);
    for (std::size_t i = 0; i < world.bytes(); i += kPage) world.words(4)[i / 8] = world.words(4)[i / 8];
    return world.send_away(4) && world.right(4) ? 0 : 3;
  });
}

// The kernel moves pages itself, and answers EAGAIN in the middle of what we move.
TEST_P(SpaceCallsTest, NothingIsLostWhileTheKernelCompactsMemory) {
  const int compact = ::open("/proc/sys/vm/compact_memory", O_WRONLY | O_CLOEXEC);
  if (compact < 0) GTEST_SKIP() << "only root may compact memory";
  run([compact](World& world) {
    std::atomic<bool> ended{false};
    std::thread compactor([&] {
      while (!ended) {
        if (::pwrite(compact, "1", 1, 0) != 1) ::usleep(1000);
      }
    });
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(2);
    int result = 0;
    for (std::uint32_t round = 0; result == 0 && std::chrono::steady_clock::now() < until; ++round) {
      // Half of them as small pages, which compaction moves most.
      if (round % 2 == 0) ::madvise(world.at(round / 2 % kBlocks), world.bytes(), MADV_NOHUGEPAGE);
      if (!world.all_right()) result = 1;
      static_cast<void>(world.pager().evict(round % kBlocks));
    }
    ended = true;
    compactor.join();
    return result;
  });
  ::close(compact);
}

INSTANTIATE_TEST_SUITE_P(Drivers, SpaceCallsTest, all_space_cases(), title);

}  // namespace
}  // namespace ebb::conformance
