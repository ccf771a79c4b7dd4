// Pages go to a device and come home: rows 12 to 18, 28 and 30 to 38 of the table in docs/mirror.md.
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "mirror_fixture.h"

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

namespace ebb::mirror_test {
namespace {

class Migrate : public MirrorTest {};

TEST_P(Migrate, Row12_Migrate) {
  Memory memory(64 * kPage);
  ASSERT_TRUE(fill_on_device(memory, 1));
  EXPECT_EQ(on_device(memory), 64u);
  EXPECT_EQ(mirror_->stats().device_pages, 64u);
  EXPECT_TRUE(device_reads(memory, 1));
  EXPECT_EQ(on_device(memory), 64u);  // it stays there
  EXPECT_TRUE(device_writes(memory.data(), memory.bytes(), 2).ok());
  EXPECT_TRUE(holds(memory, 2));
}

TEST_P(Migrate, Row13_MigrateFilePrivate) {
  mirror_.reset();
  MirrorOptions replacing = options();
  replacing.replace_file_mappings = true;
  mirror_ = Mirror::open(replacing);
  const int file = pattern_file(8 * kPage, 1);
  for (const int protection : {PROT_READ, PROT_READ | PROT_WRITE}) {
    Memory memory(8 * kPage, protection, MAP_PRIVATE, file);
    ASSERT_TRUE(to_device(memory));
    EXPECT_EQ(on_device(memory), 8u);
    EXPECT_TRUE(device_reads(memory, 1));
    EXPECT_TRUE(holds(memory, 1));
    if (protection == PROT_READ) continue;
    fill(memory, 5);
    EXPECT_TRUE(device_reads(memory, 5));
  }
  std::vector<std::byte> got(8 * kPage);
  ASSERT_EQ(::pread(file, got.data(), got.size(), 0), static_cast<ssize_t>(got.size()));
  EXPECT_TRUE(holds(got.data(), got.size(), 1));  // private: the file is as it was
  ::close(file);
}

TEST_P(Migrate, Row14_MigrateFault) {
  Memory memory(32 * kPage);
  ASSERT_TRUE(fill_on_device(memory, 1));
  EXPECT_TRUE(holds(memory.data(), memory.bytes() / 2, 1));
  EXPECT_EQ(on_device(memory), coherent() ? 32u : 16u);
  ASSERT_TRUE(to_device(memory));
  EXPECT_EQ(on_device(memory), 32u);
  EXPECT_TRUE(device_reads(memory, 1));
  EXPECT_TRUE(holds(memory, 1));
}

TEST_P(Migrate, Row15_MigrateRelease) {
  Memory memory(32 * kPage);
  ASSERT_TRUE(fill_on_device(memory, 1));
  EXPECT_TRUE(mirror_->evict(0).ok());
  EXPECT_EQ(mirror_->stats().device_pages, 0u);
  EXPECT_TRUE(holds(memory, 1));
}

TEST_P(Migrate, Row16_MigrateShared) {
  Memory memory(4 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS);
  fill(memory, 1);
  EXPECT_EQ(mirror_->migrate_to_device(0, memory.data(), memory.bytes()).error, MirrorError::kNotMigratable);
  EXPECT_TRUE(holds(memory, 1));
}

TEST_P(Migrate, Row17_MigrateMixed) {
  Memory memory(6 * kPage, PROT_NONE);
  EXPECT_EQ(mirror_->migrate_to_device(1, memory.data(), memory.bytes()).error, MirrorError::kBadRange);
  ::munmap(memory.page(1), kPage);
  EXPECT_EQ(mirror_->migrate_to_device(1, memory.data(), 3 * kPage).error, MirrorError::kBadRange);
  ::mprotect(memory.page(2), kPage, PROT_READ);
  EXPECT_EQ(*static_cast<volatile char*>(memory.page(2)), 0);  // the zero page
  ::mprotect(memory.page(3), 3 * kPage, PROT_READ | PROT_WRITE);
  fill(memory.page(3), 3 * kPage, 3);
  ::mprotect(memory.page(3), kPage, PROT_READ);
  ASSERT_TRUE(to_device(memory.page(2), 4 * kPage, 1));
  EXPECT_EQ(on_device(memory.page(2), 4 * kPage, 1), 4u);
  // What one device has is not for the other.
  EXPECT_EQ(mirror_->migrate_to_device(0, memory.page(5), kPage).error, MirrorError::kNotMigratable);
  EXPECT_EQ(*memory.page(2), 0);
  EXPECT_TRUE(holds(memory.page(3), 3 * kPage, 3));
}

TEST_P(Migrate, Row18_MigrateMultiple) {
  Memory memory(32 * kPage);
  for (std::uint32_t round = 0; round < 10; ++round) {
    ASSERT_TRUE(fill_on_device(memory, round));
    EXPECT_TRUE(device_reads(memory, round));
    if (coherent()) {
      EXPECT_TRUE(mirror_->migrate_to_host(memory.data(), memory.bytes()).ok());
    }
    EXPECT_TRUE(holds(memory, round));
    EXPECT_EQ(on_device(memory), 0u);
  }
}

TEST_P(Migrate, Row28_HmmGupTest) {
  // Fixed buffers of io_uring stand for a driver that pins pages.
  char parameters[120] = {};
  const auto ring = static_cast<int>(::syscall(SYS_io_uring_setup, 8, parameters));
  if (ring < 0) GTEST_SKIP() << "io_uring is denied to this process";
  Memory memory(kPage);
  fill(memory.data(), kPage, 1);
  ASSERT_TRUE(to_device(memory.data(), kPage));
  const iovec buffer{memory.data(), kPage};
  constexpr unsigned kRegisterBuffers = 0;
  long pinned = ::syscall(SYS_io_uring_register, ring, kRegisterBuffers, &buffer, 1);
  if (user_mode_only() && !coherent()) {
    EXPECT_EQ(pinned, -1);
    EXPECT_EQ(errno, EFAULT);  // the price of this rung: touch it first
    EXPECT_TRUE(holds(memory.data(), kPage, 1));
    pinned = ::syscall(SYS_io_uring_register, ring, kRegisterBuffers, &buffer, 1);
  }
  ASSERT_EQ(pinned, 0) << std::strerror(errno);
  if (coherent()) {
    EXPECT_TRUE(mirror_->migrate_to_host(memory.data(), kPage).ok());
  }
  EXPECT_EQ(on_device(memory.data(), kPage), 0u);
  EXPECT_EQ(mirror_->migrate_to_device(0, memory.data(), kPage).error, MirrorError::kBusy);
  EXPECT_TRUE(holds(memory.data(), kPage, 1));
  ::close(ring);
}

TEST_P(Migrate, Row30_MigrateAnonHugeEmpty) {
  const HugeMemory memory;
  ::mprotect(memory.data(), memory.bytes(), PROT_READ);
  ASSERT_TRUE(to_device(memory));
  std::vector<std::byte> got(memory.bytes(), std::byte{1});
  EXPECT_TRUE(mirror_->read(0, memory.data(), got).ok());
  EXPECT_EQ(got, std::vector<std::byte>(memory.bytes()));
  for (std::size_t i = 0; i < memory.bytes(); i += kPage) ASSERT_EQ(memory.data()[i], 0);
}

TEST_P(Migrate, Row31_MigrateAnonHugeZero) {
  const HugeMemory memory;
  ::mprotect(memory.data(), memory.bytes(), PROT_READ);
  EXPECT_EQ(*static_cast<volatile char*>(memory.data()), 0);  // the huge zero page
  ASSERT_TRUE(to_device(memory));
  for (std::size_t i = 0; i < memory.bytes(); i += 512) ASSERT_EQ(memory.data()[i], 0);
  ::mprotect(memory.data(), memory.bytes(), PROT_READ | PROT_WRITE);
  fill(memory, 1);
  EXPECT_TRUE(device_reads(memory, 1));
}

TEST_P(Migrate, Row32_MigrateAnonHugeFree) {
  const HugeMemory memory;
  ASSERT_TRUE(fill_on_device(memory, 1));
  ASSERT_EQ(::madvise(memory.data(), memory.bytes(), MADV_FREE), 0);
  EXPECT_EQ(mirror_->stats().device_pages, 0u);
  fill(memory, 2);
  EXPECT_TRUE(device_reads(memory, 2));
}

TEST_P(Migrate, Row33_MigrateAnonHugeFault) {
  const HugeMemory memory;
  fill(memory, 1);
  const bool huge = mirror_->snapshot(0, memory.data(), kPage)[0].huge;
  ASSERT_TRUE(to_device(memory));
  for (const PageView& view : mirror_->snapshot(0, memory.data(), memory.bytes())) {
    ASSERT_TRUE(view.on_device && view.write);
    if (!coherent()) {
      ASSERT_TRUE(view.huge);
    }
  }
  const auto faults = mirror_->stats().cpu_faults;
  EXPECT_TRUE(holds(memory, 1));
  if (coherent()) return;
  EXPECT_LT(mirror_->stats().cpu_faults - faults, 10u);  // it came home whole, whatever interrupts the touch
  EXPECT_EQ(mirror_->snapshot(0, memory.data(), kPage)[0].huge, huge);
}

TEST_P(Migrate, Row34_MigratePartialUnmapFault) {
  for (const bool whole : {false, true}) {
    for (std::size_t hole = 0; hole < 3; ++hole) {
      const HugeMemory memory(whole ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
      ASSERT_TRUE(fill_on_device(memory, 1));
      constexpr std::size_t kThird = 170 * kPage;
      char* const from = memory.data() + hole * kThird;
      ASSERT_EQ(::munmap(from, kThird), 0);
      EXPECT_EQ(mirror_->stats().device_pages, 512u - 170u);
      const auto expected = pattern(memory.bytes(), 1);
      for (std::size_t i = 0; i < memory.bytes(); i += kPage) {
        char* const at = memory.data() + i;
        if (at >= from && at < from + kThird) continue;
        ASSERT_EQ(std::memcmp(at, expected.data() + i, kPage), 0) << i;
      }
    }
  }
}

TEST_P(Migrate, Row35_MigrateRemapFault) {
  constexpr std::size_t kBytes = 16 * kPage;
  for (const bool before : {false, true}) {
    for (const int keep : {0, MREMAP_DONTUNMAP}) {
      Memory memory(kBytes);
      Memory target(kBytes);
      fill(memory.data(), kBytes, 1);
      if (!before) {
        ASSERT_TRUE(to_device(memory.data(), kBytes));
      }
      void* const moved = ::mremap(memory.data(), kBytes, kBytes, MREMAP_MAYMOVE | MREMAP_FIXED | keep, target.data());
      ASSERT_EQ(moved, target.data());
      if (before) {
        ASSERT_TRUE(to_device(target.data(), kBytes));
      }
      EXPECT_EQ(on_device(target.data(), kBytes), 16u);
      EXPECT_TRUE(device_reads(target.data(), kBytes, 1));
      EXPECT_TRUE(holds(target.data(), kBytes, 1));
      if (keep == 0) continue;
      for (std::size_t i = 0; i < kBytes; i += kPage) ASSERT_EQ(memory.data()[i], 0);  // the old range is empty
    }
  }
  // Part of a migrated range.
  Memory memory(kBytes);
  Memory target(4 * kPage);
  fill(memory.data(), kBytes, 1);
  ASSERT_TRUE(to_device(memory.data(), kBytes));
  ASSERT_EQ(::mremap(memory.page(4), 4 * kPage, 4 * kPage, MREMAP_MAYMOVE | MREMAP_FIXED, target.data()),
            target.data());
  const auto expected = pattern(kBytes, 1);
  EXPECT_EQ(std::memcmp(target.data(), expected.data() + 4 * kPage, 4 * kPage), 0);
  EXPECT_EQ(std::memcmp(memory.data(), expected.data(), 4 * kPage), 0);
  EXPECT_EQ(std::memcmp(memory.page(8), expected.data() + 8 * kPage, 8 * kPage), 0);
}

TEST_P(Migrate, Row36_MigrateAnonHugeErr) {
  const HugeMemory memory;
  fill(memory, 1);
  mirror_->set_shortage(0, Mirror::Shortage::kHuge);
  ASSERT_TRUE(to_device(memory));
  EXPECT_TRUE(device_reads(memory, 1));
  EXPECT_TRUE(holds(memory, 1));
  EXPECT_TRUE(mirror_->migrate_to_host(memory.data(), memory.bytes()).ok());
  mirror_->set_shortage(0, Mirror::Shortage::kAll);
  EXPECT_EQ(mirror_->migrate_to_device(0, memory.data(), memory.bytes()).error, MirrorError::kNoMemory);
  EXPECT_TRUE(holds(memory, 1));
}

TEST_P(Migrate, Row37_MigrateAnonHugeZeroErr) {
  const HugeMemory memory;
  EXPECT_EQ(*static_cast<volatile char*>(memory.data()), 0);
  mirror_->set_shortage(0, Mirror::Shortage::kHuge);
  ASSERT_TRUE(to_device(memory));
  for (std::size_t i = 0; i < memory.bytes(); i += 512) ASSERT_EQ(memory.data()[i], 0);
  fill(memory, 1);
  EXPECT_TRUE(device_reads(memory, 1));
}

// The times are in bench/mirror; here it must be right at every size.
TEST_P(Migrate, Row38_BenchmarkThpMigration) {
  for (const std::size_t bytes : {kHuge / 4, kHuge, 2 * kHuge}) {
    for (const int advice : {MADV_HUGEPAGE, MADV_NOHUGEPAGE}) {
      Memory memory(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, kHuge);
      ::madvise(memory.data(), bytes, advice);
      fill(memory.data(), bytes, 1);
      ASSERT_TRUE(to_device(memory.data(), bytes));
      EXPECT_TRUE(mirror_->migrate_to_host(memory.data(), bytes).ok());
      EXPECT_EQ(mirror_->stats().device_pages, 0u);
      EXPECT_TRUE(holds(memory.data(), bytes, 1));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, Migrate, all_parameters(), parameters_name);

}  // namespace
}  // namespace ebb::mirror_test
