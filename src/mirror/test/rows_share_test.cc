// Who sees what: snapshots, two devices, exclusive access, fork: rows 6, 22 to 27 and 29 of the table in
// docs/mirror.md.
#include <atomic>
#include <thread>

#include "mirror_fixture.h"

namespace ebb::mirror_test {
namespace {

class Share : public MirrorTest {};

TEST_P(Share, Row06_AnonWriteChild) {
  if (!can_fork()) GTEST_SKIP() << "the thread sanitizer holds its locks in fork";
  for (const bool huge : {false, true}) {
    for (const bool migrated : {false, true}) {
      const HugeMemory memory(huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
      const std::size_t bytes = huge ? kHuge : 16 * kPage;
      fill(memory.data(), bytes, 1);
      if (migrated) {
        ASSERT_TRUE(to_device(memory.data(), bytes));
      }
      const pid_t child = fork_child([&] {
        if (!holds(memory.data(), bytes, 1)) return 1;
        const auto own = Mirror::open(options());
        const auto content = pattern(bytes, 2);
        if (migrated && !own->migrate_to_device(0, memory.data(), bytes).ok()) return 2;
        if (!own->write(0, memory.data(), content).ok()) return 3;
        return holds(memory.data(), bytes, 2) ? 0 : 4;
      });
      EXPECT_EQ(end_of(child), 0) << huge << migrated;
      EXPECT_TRUE(holds(memory.data(), bytes, 1));
    }
  }
}

TEST_P(Share, Row22_Snapshot) {
  Memory memory(7 * kPage, PROT_NONE);
  ::munmap(memory.page(1), kPage);
  ::mprotect(memory.page(2), kPage, PROT_READ);
  EXPECT_EQ(*static_cast<volatile char*>(memory.page(2)), 0);
  ::mprotect(memory.page(3), 4 * kPage, PROT_READ | PROT_WRITE);
  fill(memory.page(3), 4 * kPage, 1);
  ::mprotect(memory.page(3), kPage, PROT_READ);
  ASSERT_TRUE(to_device(memory.page(5), kPage, 0));
  ASSERT_TRUE(to_device(memory.page(6), kPage, 1));
  const auto faults = mirror_->stats().cpu_faults;
  const std::vector<PageView> views = mirror_->snapshot(0, memory.data(), memory.bytes());
  ASSERT_EQ(views.size(), 7u);
  EXPECT_FALSE(views[0].mapped);
  EXPECT_FALSE(views[1].mapped);
  EXPECT_TRUE(views[2].read && views[2].zero && !views[2].write);
  EXPECT_TRUE(views[3].read && !views[3].zero && !views[3].write);
  EXPECT_TRUE(views[4].read && views[4].write && !views[4].on_device);
  EXPECT_TRUE(views[5].on_device && views[5].write);
  EXPECT_FALSE(views[6].on_device);
  EXPECT_EQ(views[6].read, coherent());            // a private device's memory is nobody else's to read
  EXPECT_EQ(mirror_->stats().cpu_faults, faults);  // nothing was touched
}

TEST_P(Share, Row23_Compound) {
  const HugeMemory memory;
  fill(memory, 1);
  const bool huge = mirror_->snapshot(0, memory.data(), kPage)[0].huge;
  if (!huge) GTEST_SKIP() << "the kernel gave no huge page";
  for (const PageView& view : mirror_->snapshot(0, memory.data(), memory.bytes())) {
    ASSERT_TRUE(view.huge && view.write);
  }
  ::mprotect(memory.data(), memory.bytes(), PROT_READ);
  for (const PageView& view : mirror_->snapshot(0, memory.data(), memory.bytes())) {
    ASSERT_TRUE(view.huge && view.read && !view.write);
  }
}

TEST_P(Share, Row24_DoubleMap) {
  Memory memory(4 * kPage);
  fill(memory, 1);
  ::mprotect(memory.data(), memory.bytes(), PROT_READ);
  EXPECT_TRUE(device_reads(memory, 1, 0));
  EXPECT_TRUE(device_reads(memory, 1, 1));
  ASSERT_TRUE(to_device(memory, 1));
  EXPECT_TRUE(device_reads(memory, 1, 0));
  EXPECT_TRUE(device_reads(memory, 1, 1));
  EXPECT_TRUE(holds(memory, 1));
}

TEST_P(Share, Row25_Exclusive) {
  Memory memory(4 * kPage);
  auto* const words = reinterpret_cast<std::uint64_t*>(memory.data());
  words[0] = 100;
  ASSERT_TRUE(mirror_->exclusive(0, memory.data(), memory.bytes()).ok());
  EXPECT_TRUE(mirror_->snapshot(0, memory.data(), kPage)[0].exclusive);
  std::uint64_t before = 0;
  ASSERT_TRUE(mirror_->add(0, words, 5, before).ok());
  EXPECT_EQ(before, 100u);
  EXPECT_TRUE(mirror_->snapshot(0, memory.data(), kPage)[0].exclusive);
  __atomic_fetch_add(words, 1, __ATOMIC_SEQ_CST);
  EXPECT_EQ(*static_cast<volatile std::uint64_t*>(words), 106u);
  EXPECT_FALSE(mirror_->snapshot(0, memory.data(), kPage)[0].exclusive);
  // Both at once lose nothing.
  constexpr std::uint64_t kTimes = 300;
  std::thread cpu([&] {
    for (std::uint64_t i = 0; i < kTimes; ++i) __atomic_fetch_add(words, 1, __ATOMIC_SEQ_CST);
  });
  for (std::uint64_t i = 0; i < kTimes; ++i) EXPECT_TRUE(mirror_->add(0, words, 1, before).ok());
  cpu.join();
  EXPECT_EQ(*static_cast<volatile std::uint64_t*>(words), 106 + 2 * kTimes);
}

TEST_P(Share, Row26_ExclusiveMprotect) {
  Memory memory(4 * kPage);
  fill(memory, 1);
  ASSERT_TRUE(mirror_->exclusive(0, memory.data(), memory.bytes()).ok());
  ::mprotect(memory.data(), memory.bytes(), PROT_READ);
  EXPECT_EQ(device_writes(memory.data(), memory.bytes(), 2).error, MirrorError::kPermission);
  std::uint64_t before = 0;
  EXPECT_EQ(mirror_->add(0, reinterpret_cast<std::uint64_t*>(memory.data()), 1, before).error,
            MirrorError::kPermission);
  EXPECT_TRUE(holds(memory, 1));
}

// Both sides of a fork count up; each starts from what there was at the fork.
TEST_P(Share, Row27_ExclusiveCow) {
  if (!can_fork()) GTEST_SKIP() << "the thread sanitizer holds its locks in fork";
  Memory memory(16 * kPage);
  fill(memory, 5);
  ASSERT_TRUE(mirror_->exclusive(0, memory.data(), memory.bytes()).ok());
  const auto increment = [&] {
    auto* const words = reinterpret_cast<volatile std::uint32_t*>(memory.data());
    for (std::size_t i = 0; i < memory.bytes() / 4; ++i) words[i] = words[i] + 1;
  };
  const pid_t child = fork_child([&] {
    increment();
    return holds(memory, 6) ? 0 : 1;
  });
  increment();
  EXPECT_TRUE(holds(memory, 6));
  EXPECT_EQ(end_of(child), 0);
}

TEST_P(Share, Row29_HmmCowInDevice) {
  if (!can_fork()) GTEST_SKIP() << "the thread sanitizer holds its locks in fork";
  Memory memory(16 * kPage);
  ASSERT_TRUE(fill_on_device(memory, 1));
  int pipe_ends[2];
  ASSERT_EQ(::pipe(pipe_ends), 0);
  const pid_t child = fork_child([&] {
    char go = 0;
    ::close(pipe_ends[1]);
    if (::read(pipe_ends[0], &go, 1) != 1) return 1;
    return holds(memory, 1) ? 0 : 2;  // the parent has written by now
  });
  ::close(pipe_ends[0]);
  fill(memory, 9);
  for (const PageView& view : mirror_->snapshot(0, memory.data(), memory.bytes())) {
    EXPECT_TRUE(view.write && !view.on_device);
  }
  EXPECT_EQ(::write(pipe_ends[1], "g", 1), 1);
  ::close(pipe_ends[1]);
  EXPECT_EQ(end_of(child), 0);
  EXPECT_TRUE(holds(memory, 9));
  ASSERT_TRUE(to_device(memory));
  EXPECT_TRUE(device_reads(memory, 9));
}

INSTANTIATE_TEST_SUITE_P(Rows, Share, all_parameters(), parameters_name);

}  // namespace
}  // namespace ebb::mirror_test
