// RemapMemory and its SIGSEGV handler: what belongs to somebody else is passed on, spaces do not disturb each other,
// and a machine that cannot carry it is told why. Every test of the handler runs in a child process, which it may end.
#include "drivers/linux/remap/remap_memory.h"

#include <gtest/gtest.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <thread>
#include <vector>

#include "handler_child.h"

namespace ebb {
namespace {

constexpr std::size_t kBytes = 16 * 1024;

std::unique_ptr<RemapMemory> make_memory() {
  std::unique_ptr<RemapMemory> memory;
  std::string reason;
  EXPECT_EQ(RemapMemory::make(kBytes, 8, 4, memory, reason), Status::kOk) << reason;
  return memory;
}

// Serves every touch with one frame of zeros, until it is destroyed.
class Server {
 public:
  explicit Server(RemapMemory& memory) : memory_(memory) {
    for (std::uint32_t i = 0; i < 4; ++i) static_cast<void>(memory_.create(FrameIndex(i)));
    thread_ = std::thread([this] {
      std::array<BlockIndex, 2> blocks;
      std::array<bool, 8> present{};
      std::uint32_t used = 0;
      while (const std::size_t count = memory_.next(blocks)) {
        for (std::size_t i = 0; i < count; ++i) {
          bool& here = present[blocks[i].value()];
          if (here) memory_.wake(blocks[i]);
          if (!here) memory_.attach(FrameIndex(used++), blocks[i]);
          here = true;
        }
      }
    });
  }
  ~Server() {
    memory_.interrupt();
    thread_.join();
  }

 private:
  RemapMemory& memory_;
  std::thread thread_;
};

void set_handler(int signal, void (*handler)(int, siginfo_t*, void*), int flags = 0) {
  struct sigaction action {};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | flags;
  ::sigaction(signal, &action, nullptr);
}

volatile char* protected_page() {
  return static_cast<volatile char*>(::mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}

class RemapHandlerTest : public testing::Test {
 protected:
  void SetUp() override {
    if (kNoHandlers != nullptr) GTEST_SKIP() << kNoHandlers;
  }
};

sigjmp_buf g_back;
void* volatile g_address = nullptr;
std::atomic<int> g_calls{0};

TEST_F(RemapHandlerTest, AnEarlierHandlerGetsWhatIsNotOurs) {
  ends(0, [] {
    set_handler(SIGSEGV, [](int, siginfo_t* info, void*) {
      g_address = info->si_addr;
      sigset_t mask;
      ::pthread_sigmask(SIG_BLOCK, nullptr, &mask);
      g_calls += ::sigismember(&mask, SIGSEGV) == 1 ? 1 : 100;  // as if the kernel had called it
      ::siglongjmp(g_back, 1);
    });
    const auto memory = make_memory();
    const Server server(*memory);
    volatile char* const page = protected_page();
    if (::sigsetjmp(g_back, 1) == 0) {
      page[5] = 1;
      return 1;
    }
    if (g_address != const_cast<char*>(page) + 5 || g_calls != 1) return 2;
    *reinterpret_cast<volatile char*>(memory->base()) = 1;  // and ours are still served
    return g_calls == 1 ? 0 : 3;
  });
}

TEST_F(RemapHandlerTest, AnEarlierHandlerWithoutDetailsIsCalledToo) {
  ends(42, [] {
    ::signal(SIGSEGV, [](int) { ::_exit(42); });
    const auto memory = make_memory();
    *protected_page() = 1;
    return 1;
  });
}

TEST_F(RemapHandlerTest, WithoutAnEarlierHandlerABadAccessEndsTheProcess) {
  for (const auto before : {SIG_DFL, SIG_IGN}) {  // an access cannot be ignored
    ends(kSignalled + SIGSEGV, [before] {
      ::signal(SIGSEGV, before);
      const auto memory = make_memory();
      *protected_page() = 1;
      return 1;
    });
  }
}

TEST_F(RemapHandlerTest, ASignalThatWasSentIsIgnoredOrDeadlyAsBefore) {
  for (const auto before : {SIG_IGN, SIG_DFL}) {
    ends(before == SIG_IGN ? 0 : kSignalled + SIGSEGV, [before] {
      ::signal(SIGSEGV, before);
      const auto memory = make_memory();
      ::kill(::getpid(), SIGSEGV);
      return 0;
    });
  }
}

TEST_F(RemapHandlerTest, AResetHandlerIsInstalledAgainWithTheNextSpace) {
  ends(0, [] {
    const auto first = make_memory();
    ::signal(SIGSEGV, SIG_DFL);
    const auto second = make_memory();
    const Server server(*second);
    *reinterpret_cast<volatile char*>(second->base()) = 1;
    return 0;
  });
}

TEST_F(RemapHandlerTest, AJumpIntoTheSpaceIsNotServed) {
  ends(kSignalled + SIGSEGV, [] {
    ::signal(SIGSEGV, SIG_DFL);
    const auto memory = make_memory();
    const Server server(*memory);
    reinterpret_cast<void (*)()>(memory->base() + 64)();
    return 1;
  });
}

TEST_F(RemapHandlerTest, AHandlerThatRunsDuringAFaultMayFaultToo) {
  ends(0, [] {
    static RemapMemory* memory = nullptr;
    const auto made = make_memory();
    memory = made.get();
    set_handler(SIGUSR1, [](int, siginfo_t*, void*) {
      *reinterpret_cast<volatile char*>(memory->base() + kBytes) = 1;
      ++g_calls;
    });
    std::thread toucher([] { *reinterpret_cast<volatile char*>(memory->base()) = 1; });
    ::usleep(20'000);  // it waits, served by nobody
    ::pthread_kill(toucher.native_handle(), SIGUSR1);
    ::usleep(20'000);
    const Server server(*memory);
    toucher.join();
    return g_calls == 1 ? 0 : 1;
  });
}

TEST_F(RemapHandlerTest, AFaultOnAnAlternateStackIsServed) {
  ends(0, [] {
    static std::array<char, 64 * 1024> stack;
    const stack_t alternate{stack.data(), 0, stack.size()};
    ::sigaltstack(&alternate, nullptr);
    const auto memory = make_memory();
    const Server server(*memory);
    *reinterpret_cast<volatile char*>(memory->base()) = 1;
    return 0;
  });
}

TEST_F(RemapHandlerTest, ABusErrorThatIsBlockedIsDeadlyAllTheSame) {
  ends(kSignalled + SIGBUS, [] {
    sigset_t only;
    ::sigemptyset(&only);
    ::sigaddset(&only, SIGBUS);
    ::pthread_sigmask(SIG_BLOCK, &only, nullptr);
    const auto memory = make_memory();
    std::thread server([&] {
      std::array<BlockIndex, 1> blocks;
      while (memory->next(blocks) > 0) memory->fail(blocks[0]);
    });
    *reinterpret_cast<volatile char*>(memory->base()) = 1;
    return 1;
  });
}

TEST_F(RemapHandlerTest, SpacesDoNotDisturbEachOther) {
  ends(0, [] {
    const auto first = make_memory();
    auto second = make_memory();
    const Server first_server(*first);
    {
      const Server second_server(*second);
      for (std::uint32_t i = 0; i < 4; ++i) {
        *reinterpret_cast<volatile char*>(first->base() + i * kBytes) = 1;
        *reinterpret_cast<volatile char*>(second->base() + i * kBytes) = 2;
      }
      if (*reinterpret_cast<volatile char*>(first->base()) != 1) return 1;
      if (*reinterpret_cast<volatile char*>(second->base()) != 2) return 2;
    }
    second.reset();
    return *reinterpret_cast<volatile char*>(first->base() + 3 * kBytes) == 1 ? 0 : 3;
  });
}

TEST_F(RemapHandlerTest, ManySpacesComeAndGoAndTooManyAreRefused) {
  ends(0, [] {
    for (std::size_t i = 0; i < 2 * SignalFaults::kRangesMax; ++i) {
      if (make_memory() == nullptr) return 1;
    }
    std::vector<std::unique_ptr<RemapMemory>> all;
    for (std::size_t i = 0; i < SignalFaults::kRangesMax; ++i) all.push_back(make_memory());
    std::unique_ptr<RemapMemory> memory;
    std::string reason;
    if (RemapMemory::make(kBytes, 8, 4, memory, reason) != Status::kUnsupported) return 2;
    return reason.find("spaces") != std::string::npos ? 0 : 3;
  });
}

TEST_F(RemapHandlerTest, AChildInheritsNeitherTheSpaceNorTheFrames) {
  ends(0, [] {
    const auto memory = make_memory();
    for (std::uint32_t i = 0; i < 2; ++i) static_cast<void>(memory->create(FrameIndex(i)));
    memory->attach(FrameIndex(0), BlockIndex(3));
    memory->attach(FrameIndex(1), BlockIndex(4));
    static_cast<void>(memory->detach(BlockIndex(4), FrameIndex(1)));
    return in_a_child(60, [&] {
      const std::array<std::byte*, 4> places{memory->base(), memory->base() + 3 * kBytes, memory->base() + 4 * kBytes,
                                             memory->home(FrameIndex(0)).data()};
      unsigned char seen = 0;
      for (std::byte* const place : places) {
        if (::mincore(place, 4096, &seen) == 0 || errno != ENOMEM) return 1;  // something is mapped there
      }
      return 0;
    });
  });
}

TEST(RemapMemoryTest, RefusesMoreBlocksThanThereCanBeMappings) {
  std::unique_ptr<RemapMemory> memory;
  std::string reason;
  EXPECT_EQ(RemapMemory::make(4096, 16, 1u << 30, memory, reason), Status::kUnsupported);
  EXPECT_NE(reason.find("vm.max_map_count="), std::string::npos) << reason;
  EXPECT_EQ(memory, nullptr);
}

TEST(RemapMemoryTest, RefusesBlocksThatAreNotWholePages) {
  std::unique_ptr<RemapMemory> memory;
  std::string reason;
  EXPECT_EQ(RemapMemory::make(1000, 16, 4, memory, reason), Status::kUnsupported);
  EXPECT_NE(reason.find("whole pages"), std::string::npos) << reason;
}

}  // namespace
}  // namespace ebb
