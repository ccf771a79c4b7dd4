// Signal stacks: a touch of absent memory leaves alone what lies below a stack pointer that is no stack, a program's
// own alternate stack stays, and threads leave nothing behind.
#include "drivers/linux/process/signal_stack.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "drivers/linux/remap/remap_memory.h"
#include "handler_child.h"

namespace ebb {
namespace {

std::size_t mappings() {
  std::ifstream maps("/proc/self/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);) ++count;
  return count;
}

#if defined(__x86_64__)
// As oneDNN's matrix products do: the stack pointer is in memory of the program's own while absent memory is read.
[[gnu::noinline]] void read_without_a_stack(const std::byte* address, std::byte* instead) {
  asm volatile(
      "mov %%rsp, %%r12\n\t"
      "mov %[instead], %%rsp\n\t"
      "movb (%[address]), %%al\n\t"
      "mov %%r12, %%rsp"
      :
      : [instead] "r"(instead), [address] "r"(address)
      : "rax", "r12", "memory");
}

// Whether the memory below the stack pointer is what it was.
bool is_left_alone(RemapMemory& memory, BlockIndex block, bool prepared) {
  std::vector<std::byte> heap(256 * 1024, std::byte{0x5a});
  const auto middle = reinterpret_cast<std::uintptr_t>(heap.data() + heap.size() / 2) & ~std::uintptr_t{63};
  std::thread toucher([&] {
    if (prepared) {
      memory.prepare_thread();
    } else {  // threads begin with one
      stack_t none{};
      none.ss_flags = SS_DISABLE;
      ASSERT_EQ(::sigaltstack(&none, nullptr), 0);
    }
    read_without_a_stack(memory.base() + std::size_t{block.value()} * 16384, reinterpret_cast<std::byte*>(middle));
  });
  toucher.join();
  return std::all_of(heap.begin(), heap.end(), [](std::byte each) { return each == std::byte{0x5a}; });
}

TEST(SignalStackTest, WhatLiesBelowAStackPointerThatIsNoStackIsLeftAlone) {
  if (kNoHandlers != nullptr) GTEST_SKIP() << kNoHandlers;
  std::unique_ptr<RemapMemory> memory;
  std::string reason;
  ASSERT_EQ(RemapMemory::make(16384, 8, 4, memory, reason), Status::kOk) << reason;
  for (std::uint32_t i = 0; i < 2; ++i) ASSERT_EQ(memory->create(FrameIndex(i)), Status::kOk);
  std::thread server([&] {
    std::array<BlockIndex, 1> blocks;
    for (std::uint32_t served = 0; memory->next(blocks) > 0; ++served) memory->attach(FrameIndex(served), blocks[0]);
  });
  EXPECT_TRUE(is_left_alone(*memory, BlockIndex(0), true));
  EXPECT_FALSE(is_left_alone(*memory, BlockIndex(1), false)) << "then nothing of this would be needed";
  memory->interrupt();
  server.join();
}
#endif

TEST(SignalStackTest, AProgramsOwnStackStays) {
  std::thread([] {
    static std::array<char, 64 * 1024> theirs;
    stack_t alternate{};
    alternate.ss_sp = theirs.data();
    alternate.ss_size = theirs.size();
    stack_t earlier{};
    ASSERT_EQ(::sigaltstack(&alternate, &earlier), 0);
    ensure_signal_stack();
    stack_t now{};
    ASSERT_EQ(::sigaltstack(nullptr, &now), 0);
    EXPECT_EQ(now.ss_sp, theirs.data());
    EXPECT_EQ(now.ss_size, theirs.size());
    ASSERT_EQ(::sigaltstack(&earlier, nullptr), 0);  // a sanitizer releases what it finds there
  }).join();
}

TEST(SignalStackTest, AThreadHasOneAndLeavesNothing) {
  if (kNoHandlers != nullptr) GTEST_SKIP() << kNoHandlers;  // a sanitizer gives each thread one of its own
  const auto visit = [] {
    std::thread([] {
      ensure_signal_stack();
      ensure_signal_stack();
      stack_t now{};
      ASSERT_EQ(::sigaltstack(nullptr, &now), 0);
      EXPECT_EQ(now.ss_flags & SS_DISABLE, 0);
      EXPECT_GE(now.ss_size, std::size_t{64} << 10);
    }).join();
  };
  visit();
  const std::size_t before = mappings();
  for (int i = 0; i < 100; ++i) visit();
  EXPECT_LT(mappings(), before + 20);
}

}  // namespace
}  // namespace ebb
