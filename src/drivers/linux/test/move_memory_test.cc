// MoveMemory on the rung below full: a user to whom the kernel gives userfaultfd for touches by the program only.
#include "drivers/linux/userfault/move_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <thread>

#include "base/test/in_a_child.h"
#include "drivers/linux/process/process_map.h"
#include "drivers/linux/process/reservation.h"
#include "drivers/linux/system/system_files.h"

namespace ebb {
namespace {

constexpr std::size_t kBytes = 64 * 1024;

// As somebody without privileges, in a child; 0, kSkip, or the number of what went wrong.
int run_unprivileged() {
  if (::geteuid() == 0 && ::setresuid(65534, 65534, 65534) != 0) return kSkip;
  ::prctl(PR_SET_DUMPABLE, 1);  // as of a process that began so: /proc/self is its own
  std::unique_ptr<MoveMemory> memory;
  if (MoveMemory::make(kBytes, 4, 2, memory) != Status::kOk) return kSkip;
  if (memory->description().find("user-mode rung") == std::string::npos) return kSkip;  // full for everybody here
  if (memory->description().find("vm.unprivileged_userfaultfd=1") == std::string::npos) return 1;
  if (memory->create(FrameIndex(0)) != Status::kOk) return 2;
  memory->home(FrameIndex(0))[100] = std::byte{9};
  std::array<int, 2> ends;
  if (::pipe(ends.data()) != 0) return 3;
  std::byte* const data = memory->base() + kBytes;
  errno = 0;
  if (::write(ends[1], data + 100, 1) != -1 || errno != EFAULT) return 4;
  std::thread server([&] {
    std::array<BlockIndex, 1> blocks;
    if (memory->next(blocks) == 1) memory->attach(FrameIndex(0), blocks[0]);
  });
  const std::byte seen = *const_cast<volatile std::byte*>(data + 100);
  server.join();
  if (seen != std::byte{9}) return 5;
  if (::write(ends[1], data + 100, 1) != 1) return 6;  // what is present is like any other memory
  return memory->detach(BlockIndex(1), FrameIndex(0)) == Status::kOk ? 0 : 7;
}

TEST(MoveMemoryTest, OnTheUserModeRungOnlySystemCallsOnAbsentBlocksFail) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer starts no threads after fork";
#endif
  // Not to be had where userfaultfd is full for everybody, or for nobody.
  expect_end(in_a_child(60, run_unprivileged));
}

TEST(MoveMemoryTest, SaysOnWhichRungItIs) {
  std::unique_ptr<MoveMemory> memory;
  if (MoveMemory::make(kBytes, 4, 2, memory) != Status::kOk) GTEST_SKIP() << "no userfaultfd with UFFDIO_MOVE here";
  const std::string text = memory->description();
  EXPECT_NE(text.find("rung"), std::string::npos) << text;
  const bool allowed = ::geteuid() == 0 || read_line("/proc/sys/vm/unprivileged_userfaultfd") == "1";
  if (allowed) {
    EXPECT_NE(text.find("full rung"), std::string::npos) << text;
  }
}

// A block that is touched before it has come must not cost the frame its huge page.
TEST(MoveMemoryTest, ATouchLeavesHugePagesWhole) {
  std::unique_ptr<MoveMemory> memory;
  if (MoveMemory::make(kHugePageBytes, 4, 1, memory) != Status::kOk)
    GTEST_SKIP() << "no userfaultfd with UFFDIO_MOVE here";
  ASSERT_EQ(memory->create(FrameIndex(0)), Status::kOk);
  ProcessMap map;
  ASSERT_EQ(ProcessMap::open(map), Status::kOk);
  const auto huge = [&](const std::byte* at) {
    return (map.page(reinterpret_cast<std::uintptr_t>(at)) & ProcessMap::kHuge) != 0;
  };
  std::byte* const home = memory->home(FrameIndex(0)).data();
  if (!huge(home)) GTEST_SKIP() << "no huge pages here";
  for (const bool write : {false, true}) {
    auto* const block = reinterpret_cast<volatile std::byte*>(memory->base() + (write ? 2 : 1) * kHugePageBytes);
    std::thread program([&] {
      if (write)
        block[12345] = std::byte{1};
      else
        static_cast<void>(block[12345]);
    });
    std::array<BlockIndex, 1> touched;
    EXPECT_EQ(memory->next(touched), 1U);
    memory->attach(FrameIndex(0), touched[0]);
    program.join();
    EXPECT_TRUE(huge(const_cast<const std::byte*>(block))) << (write ? "written" : "read");
    EXPECT_EQ(memory->detach(touched[0], FrameIndex(0)), Status::kOk);
    EXPECT_TRUE(huge(home)) << (write ? "written" : "read");
  }
}

// Of a block that is lost, what stands behind a hole that the program has made fails as well: nobody waits for it.
TEST(MoveMemoryTest, ALostBlockFailsOnBothSidesOfAHole) {
  expect_end(in_a_child(20, [] {
    std::unique_ptr<MoveMemory> memory;
    std::array<int, 2> ends;
    if (MoveMemory::make(kBytes, 4, 2, memory) != Status::kOk || ::pipe(ends.data()) != 0) return kSkip;
    std::byte* const block = memory->base() + kBytes;
    if (::munmap(block + kBytes / 2, kPageBytes) != 0) return 1;
    memory->fail(BlockIndex(1));
    for (const std::size_t at : {std::size_t{0}, kBytes - 1}) {
      if (::write(ends[1], block + at, 1) != -1 || errno != EFAULT) return 2;
    }
    memory->forget_failure(BlockIndex(1));
    if (memory->create(FrameIndex(0)) != Status::kOk) return 3;
    memory->home(FrameIndex(0))[kBytes - 1] = std::byte{7};
    memory->attach(FrameIndex(0), BlockIndex(1));
    return block[kBytes - 1] == std::byte{7} ? 0 : 4;
  }));
}

}  // namespace
}  // namespace ebb
