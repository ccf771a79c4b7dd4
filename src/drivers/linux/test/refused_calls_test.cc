// What the kernel refuses once in years, at the worst moment: that nothing of it gives a program other bytes than it
// has written.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // their libraries wrap these calls
#include "drivers/linux/test/refused_calls.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>

#include "base/test/in_a_child.h"
#include "drivers/linux/process/process_map.h"
#include "drivers/linux/remap/remap_memory.h"
#include "drivers/linux/userfault/move_memory.h"

namespace ebb {
namespace {

constexpr std::size_t kBytes = 64 * 1024;
constexpr unsigned kMove = 0x05, kPoison = 0x08;  // of UFFDIO_MOVE, UFFDIO_POISON, for which headers may be too old
constexpr unsigned kSecondsMax = 30;
constexpr BlockIndex kBlock(1);
constexpr FrameIndex kFrame(0);

bool is_ioctl(const DriverCall& call, unsigned number) {
  return call.kind == DriverCall::Kind::kIoctl && _IOC_TYPE(call.number) == UFFDIO && _IOC_NR(call.number) == number;
}
bool is_syscall(const DriverCall& call, long number) {
  return call.kind == DriverCall::Kind::kSyscall && call.number == static_cast<unsigned long>(number);
}

// No page moves, and there is none to copy it to.
int no_memory(const DriverCall& call) {
  return is_ioctl(call, kMove) ? EINVAL : is_ioctl(call, _UFFDIO_COPY) ? ENOMEM : 0;
}

class MoveMemoryRefused : public ::testing::Test {
 protected:
  void SetUp() override {
    if (MoveMemory::make(kBytes, 4, 2, memory_) != Status::kOk) GTEST_SKIP() << "no userfaultfd with UFFDIO_MOVE here";
    ASSERT_EQ(memory_->create(kFrame), Status::kOk);
    std::fill_n(memory_->home(kFrame).data(), kBytes, std::byte{7});
    ASSERT_EQ(::pipe2(ends_.data(), O_NONBLOCK), 0);
  }
  void TearDown() override {
    for (const int end : ends_) ::close(end);
  }

  std::byte* data() const { return memory_->base() + kBlock.value() * kBytes; }
  // What the program would find: 7, another byte, or the errno for which it would find none.
  int found(std::size_t at) {
    memory_->wake(kBlock);  // as if somebody had touched it
    if (::write(ends_[1], data() + at, 1) != 1) return -errno;
    unsigned char byte = 0;
    return ::read(ends_[0], &byte, 1) == 1 ? byte : 0;
  }

  std::unique_ptr<MoveMemory> memory_;
  std::array<int, 2> ends_{-1, -1};
};

TEST_F(MoveMemoryRefused, ABlockForWhichThereIsNoMemoryIsLostAndNeverZeros) {
  {
    const RefusedCalls refused(no_memory);
    memory_->attach(kFrame, kBlock);
  }
  EXPECT_EQ(found(0), -EFAULT);
  EXPECT_EQ(found(kBytes - 1), -EFAULT);
  EXPECT_EQ(memory_->detach(kBlock, kFrame), Status::kBusy) << "it leaves as zeros";
}

// Half of the block has left when the kernel refuses the rest, and then there is no way back either.
TEST_F(MoveMemoryRefused, WhatCannotBeBroughtBackIsLostAndNeverZeros) {
  memory_->attach(kFrame, kBlock);
  ASSERT_EQ(::mprotect(data() + kBytes / 2, kBytes / 2, PROT_READ), 0);
  std::size_t moved = 0;
  {
    const RefusedCalls refused([&moved](const DriverCall& call) {
      if (is_ioctl(call, kMove)) ++moved;
      return moved > 3 ? no_memory(call) : 0;  // all at once; the first half; the second half, which is read-only
    });
    EXPECT_EQ(memory_->detach(kBlock, kFrame), Status::kBusy);
  }
  EXPECT_GT(moved, 4U);
  ASSERT_EQ(::mprotect(data() + kBytes / 2, kBytes / 2, PROT_READ | PROT_WRITE), 0);
  EXPECT_EQ(found(0), -EFAULT);
  EXPECT_EQ(found(kBytes - 1), 7);
  EXPECT_EQ(memory_->detach(kBlock, kFrame), Status::kBusy) << "it leaves with zeros in it";
}

TEST_F(MoveMemoryRefused, WhereThereIsNoMemoryForAMarkEitherAllOfTheBlockIsBarred) {
  {
    const RefusedCalls refused(
        [](const DriverCall& call) { return is_ioctl(call, kPoison) ? ENOMEM : no_memory(call); });
    memory_->attach(kFrame, kBlock);
  }
  EXPECT_EQ(found(0), -EFAULT);
  EXPECT_EQ(found(kBytes - 1), -EFAULT);
  EXPECT_EQ(memory_->detach(kBlock, kFrame), Status::kBusy) << "it leaves as zeros";
}

// Where pages do not move they are copied, for as long as it takes to have memory for them.
TEST_F(MoveMemoryRefused, WhatDoesNotMoveIsCopiedOnceThereIsMemory) {
  int copies = 0;
  {
    const RefusedCalls refused([&copies](const DriverCall& call) {
      const int error = no_memory(call);
      return error == ENOMEM && ++copies > 1000 ? 0 : error;
    });
    memory_->attach(kFrame, kBlock);
  }
  EXPECT_EQ(found(0), 7);
  EXPECT_EQ(found(kBytes - 1), 7);
  EXPECT_EQ(memory_->detach(kBlock, kFrame), Status::kOk);
}

std::unique_ptr<RemapMemory> make_remap_memory() {
  std::unique_ptr<RemapMemory> memory;
  std::string reason;
  EXPECT_EQ(RemapMemory::make(kBytes, 4, 2, memory, reason), Status::kOk) << reason;
  EXPECT_EQ(memory->create(kFrame), Status::kOk);
  return memory;
}

// In children, because a space of this kind leaves a handler of SIGSEGV behind, for which other tests are the first.
// A mapping that cannot be kept from children is taken back; one that cannot be taken back either would go on showing
// the frame when it is another block's.
TEST(RemapMemoryRefused, AFrameIsNeverLeftUnderABlockThatCountsAsAbsent) {
  const auto no_advice = [](const DriverCall& call) {
    return is_syscall(call, SYS_madvise) && call.words[2] == MADV_DONTFORK ? ENOMEM : 0;
  };
  const auto nothing = [no_advice](const DriverCall& call) {
    return is_syscall(call, SYS_mmap) && call.words[2] == PROT_NONE ? ENOMEM : no_advice(call);
  };
  expect_end(in_a_child(kSecondsMax, [&] {
    const auto memory = make_remap_memory();
    ProcessMap map;
    if (ProcessMap::open(map) != Status::kOk) return kSkip;
    const RefusedCalls refused(no_advice);
    memory->attach(kFrame, kBlock);
    std::size_t run = 0;
    return map.present_run(reinterpret_cast<std::uintptr_t>(memory->base()) + kBlock.value() * kBytes, kBytes, run) ? 1
                                                                                                                    : 0;
  }));
  const auto aborted = in_a_child(kSecondsMax, [&] {
    const auto memory = make_remap_memory();
    const RefusedCalls refused(nothing);
    memory->attach(kFrame, kBlock);
    return 0;
  });
  expect_end(aborted, kSignalled + SIGABRT);
}

// The block stays where it is, with what is in it, while the kernel does not take the mapping away.
TEST(RemapMemoryRefused, ABlockThatCannotBeUnmappedStays) {
  expect_end(in_a_child(kSecondsMax, [] {
    const auto memory = make_remap_memory();
    memory->attach(kFrame, kBlock);
    std::byte& byte = memory->base()[kBlock.value() * kBytes];
    byte = std::byte{7};
    {
      const RefusedCalls refused([](const DriverCall& call) { return is_syscall(call, SYS_mmap) ? ENOMEM : 0; });
      if (memory->detach(kBlock, kFrame) != Status::kBusy) return 1;
    }
    if (byte != std::byte{7}) return 2;
    if (memory->detach(kBlock, kFrame) != Status::kOk) return 3;
    return memory->home(kFrame)[0] == std::byte{7} ? 0 : 4;
  }));
}

}  // namespace
}  // namespace ebb
#endif
