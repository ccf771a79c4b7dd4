// One regression for each hazard that the design carries (docs/design/0010-mirror.md), and the parts that need none of
// the kernel: directory and ranges. Launches on foreign memory are here too.
#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <span>
#include <thread>

#include "base/rng.h"
#include "drivers/linux/process/process_map.h"
#include "mirror/pages/directory.h"
#include "mirror/pages/watched_ranges.h"
#include "mirror_fixture.h"

namespace ebb::mirror_test {
namespace {

class Hazard : public MirrorTest {
 protected:
  MirrorError read_error(const void* data) {
    std::vector<std::byte> got(kPage);
    return mirror_->read(0, data, got).error;
  }
};

// Hazard 1: fork holds malloc's locks while it waits for its event to be read.
TEST_P(Hazard, ForkWhileOthersAllocateAndMigrate) {
  if (!can_fork()) GTEST_SKIP() << "the thread sanitizer holds its locks in fork";
  Memory memory(64 * kPage);
  fill(memory, 3);
  std::atomic<bool> stop{false};
  std::thread allocating([&] {
    while (!stop) {
      const std::vector<char> some(100'000, 'x');
      if (some[5] != 'x') stop = true;
    }
  });
  std::thread migrating([&] {
    while (!stop) {
      [[maybe_unused]] const auto out = mirror_->migrate_to_device(0, memory.data(), memory.bytes());
      [[maybe_unused]] const auto home = mirror_->migrate_to_host(memory.data(), memory.bytes());
    }
  });
  for (int i = 0; i < 2; ++i) {
    const pid_t child = fork_child([&] { return holds(memory, 3) ? 0 : 1; });
    EXPECT_EQ(end_of(child), 0);
  }
  stop = true;
  allocating.join();
  migrating.join();
  EXPECT_TRUE(holds(memory, 3));
}

// Hazard 2: the caller of munmap goes on when its event was read; nothing stale may be found then.
TEST_P(Hazard, UnmapIsAppliedBeforeItReturns) {
  for (std::uint32_t round = 0; round < 30; ++round) {
    Memory memory(8 * kPage);
    ASSERT_TRUE(fill_on_device(memory, round));
    ::munmap(memory.data(), memory.bytes());
    EXPECT_EQ(mirror_->stats().device_pages, 0u);
    EXPECT_EQ(read_error(memory.data()), MirrorError::kFault);
  }
}

TEST_P(Hazard, DiscardIsAppliedBeforeItReturns) {
  Memory memory(8 * kPage);
  for (std::uint32_t round = 0; round < 30; ++round) {
    ASSERT_TRUE(fill_on_device(memory, round));
    ASSERT_EQ(::madvise(memory.data(), memory.bytes(), MADV_DONTNEED), 0);
    std::vector<std::byte> got(memory.bytes(), std::byte{1});
    EXPECT_TRUE(mirror_->read(0, memory.data(), got).ok());
    EXPECT_EQ(got, std::vector<std::byte>(memory.bytes()));
    EXPECT_EQ(memory.data()[0], 0);
  }
}

// Hazard 3: mprotect tells nobody. Home must also come what cannot be written any more.
TEST_P(Hazard, ProtectionIsAskedAtEachAccess) {
  Memory memory(4 * kPage);
  ASSERT_TRUE(fill_on_device(memory, 1));
  ::mprotect(memory.data(), memory.bytes(), PROT_READ);
  EXPECT_EQ(device_writes(memory.data(), kPage, 2).error, MirrorError::kPermission);
  EXPECT_TRUE(device_reads(memory, 1));
  EXPECT_TRUE(holds(memory, 1));
  ::mprotect(memory.data(), memory.bytes(), PROT_NONE);
  EXPECT_EQ(read_error(memory.data()), MirrorError::kFault);
}

// Hazard 6: without the privilege a call by the kernel fails instead of waiting; with it, it waits.
TEST_P(Hazard, SystemCallsOnMigratedMemory) {
  if (coherent()) GTEST_SKIP() << "does not apply: the CPU's page is there";
  Memory memory(kPage);
  fill(memory.data(), kPage, 1);
  ASSERT_TRUE(to_device(memory.data(), kPage));
  const int file = pattern_file(kPage, 0);
  const ssize_t put = ::pwrite(file, memory.data(), kPage, 0);
  EXPECT_EQ(put, user_mode_only() ? -1 : static_cast<ssize_t>(kPage));
  if (put < 0) {
    EXPECT_EQ(errno, EFAULT);
  }
  EXPECT_TRUE(holds(memory.data(), kPage, 1));
  ::close(file);
}

// Hazard 9: what the child sees is the moment of the fork, also if the parent writes at once.
TEST_P(Hazard, ChildSeesTheMomentOfTheFork) {
  if (!can_fork()) GTEST_SKIP() << "the thread sanitizer holds its locks in fork";
  Memory memory(256 * kPage);
  for (std::uint32_t round = 0; round < 5; ++round) {
    ASSERT_TRUE(fill_on_device(memory, round));
    const pid_t child = fork_child([&] { return holds(memory, round) ? 0 : 1; });
    fill(memory, 1000 + round);
    EXPECT_EQ(end_of(child), 0);
  }
}

TEST_P(Hazard, OwnMemoryAndBadRangesAreRefused) {
  const auto stack = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)) & ~(kPage - 1);
  EXPECT_EQ(mirror_->migrate_to_device(0, reinterpret_cast<void*>(stack - 8 * kPage), 16 * kPage).error,
            MirrorError::kBadRange);
  Memory memory(2 * kPage);
  EXPECT_EQ(mirror_->migrate_to_device(0, memory.data() + 8, kPage).error, MirrorError::kBadRange);
  EXPECT_EQ(mirror_->migrate_to_device(0, memory.data(), kPage / 2).error, MirrorError::kBadRange);
  EXPECT_THROW([[maybe_unused]] const auto bad = mirror_->read(7, memory.data(), {}), Error);
  EXPECT_THROW(Mirror::open({.devices = {}}), Error);
}

TEST_P(Hazard, LockedMemoryGoesAndComes) {
  Memory memory(4 * kPage);
  fill(memory, 1);
  if (::mlock(memory.data(), memory.bytes()) != 0) GTEST_SKIP() << "locked memory is denied (ulimit -l)";
  ASSERT_TRUE(to_device(memory));
  EXPECT_TRUE(device_reads(memory, 1));
  EXPECT_TRUE(holds(memory, 1));
}

// Read-only memory is copied: the CPU's first write ends the copy, and no write is lost.
TEST_P(Hazard, ACopyEndsWithTheFirstWrite) {
  Memory memory(8 * kPage);
  fill(memory, 1);
  ::mprotect(memory.data(), memory.bytes(), PROT_READ);
  ASSERT_TRUE(to_device(memory));
  EXPECT_TRUE(holds(memory, 1));
  EXPECT_EQ(on_device(memory), 8u);  // reading ends nothing
  EXPECT_EQ(mirror_->exclusive(0, memory.data(), kPage).error, MirrorError::kPermission);
  ::mprotect(memory.data(), memory.bytes(), PROT_READ | PROT_WRITE);
  auto* const words = reinterpret_cast<volatile std::uint64_t*>(memory.data());
  words[3 * kPage / 8] = 99;
  EXPECT_EQ(on_device(memory), 7u);
  std::uint64_t got = 0;
  EXPECT_TRUE(mirror_->read(0, memory.page(3), std::as_writable_bytes(std::span(&got, 1))).ok());
  EXPECT_EQ(got, 99u);
  EXPECT_TRUE(device_writes(memory.page(5), kPage, 7).ok());
  EXPECT_TRUE(holds(memory.page(5), kPage, 7));
  EXPECT_EQ(on_device(memory), 6u);
  // From now on it can be moved, and so it can be had exclusively.
  EXPECT_TRUE(mirror_->exclusive(0, memory.data(), memory.bytes()).ok());
  EXPECT_EQ(words[3 * kPage / 8], 99u);
  EXPECT_TRUE(mirror_->evict(0).ok());
  EXPECT_EQ(mirror_->stats().device_pages, 0u);
}

// Hazard 2 again: between a remapping and its event the directory is wrong; what is migrated then must not be dropped.
TEST_P(Hazard, RemappingBackAndForthWhileMigrating) {
  constexpr std::size_t kBytes = 4 * kPage;
  Memory arena(2 * kBytes, PROT_NONE);
  char* from = arena.data();
  char* to = arena.data() + kBytes;
  ASSERT_EQ(::mprotect(from, kBytes, PROT_READ | PROT_WRITE), 0);
  std::atomic<bool> begun{false}, stop{false};
  std::thread migrating([&] {
    for (std::size_t i = 0; !stop; ++i) {
      if (i > 10) begun = true;
      char* const at = arena.page(i % 8 / 4 * 4);
      [[maybe_unused]] const auto out = mirror_->migrate_to_device(0, at, kBytes);
      if (i % 3 > 0) continue;
      [[maybe_unused]] const auto home = mirror_->migrate_to_host(at, kBytes);
    }
  });
  while (!begun) std::this_thread::yield();  // a thread that starts maps memory, for which a hole below would do
  for (std::uint32_t round = 0; round < 300 && !HasFailure(); ++round) {
    fill(from, kBytes, round);
    if (round % 2 == 1) ::mprotect(from, kBytes, PROT_READ);
    EXPECT_EQ(::mremap(from, kBytes, kBytes, MREMAP_MAYMOVE | MREMAP_FIXED, to), to) << round;
    EXPECT_EQ(::mmap(from, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), from);
    std::swap(from, to);
    EXPECT_TRUE(holds(from, kBytes, round)) << round;
    ::mprotect(from, kBytes, PROT_READ | PROT_WRITE);
  }
  stop = true;
  migrating.join();
}

TEST_P(Hazard, LaunchWorksOnAnyMemory) {
  std::vector<double> values(3000, 1.5);
  double on_stack = 4;
  Memory migrated(4 * kPage);
  ASSERT_TRUE(fill_on_device(migrated, 1));
  auto* const words = reinterpret_cast<std::uint32_t*>(migrated.data());
  const LaunchReport report = mirror_->launch(
      0,
      [&](DeviceView& device) {
        for (std::size_t i = 0; i < values.size(); ++i)
          device.store(&values[i], device.load(&values[i]) * 2 + static_cast<double>(i));
        device.store(&on_stack, device.load(&on_stack) + device.load(&words[5]));
        device.store(&words[1024], 12u);
      },
      std::vector<Use>{updates(std::span(values)), reads(std::span(words, 4096))});
  EXPECT_GT(report.faults, 5u);
  for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], 3.0 + static_cast<double>(i));
  EXPECT_EQ(on_stack, 40.0);
  EXPECT_EQ(words[1024], 12u);
  EXPECT_EQ(words[1025], 1025 * 7 + 1u);
}

TEST_P(Hazard, ABadAddressFailsItsLaunchAndNothingElse) {
  Memory memory(4 * kPage);
  ::mprotect(memory.page(2), kPage, PROT_READ);
  auto* const nowhere = reinterpret_cast<std::uint32_t*>(kPage);  // below all that the kernel maps
  const auto message = [&](const Mirror::Kernel& kernel) -> std::string {
    try {
      mirror_->launch(0, kernel, {});
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  auto* const words = reinterpret_cast<std::uint32_t*>(memory.data());
  const std::string denied = message([&](DeviceView& device) { device.store(&words[2 * 1024 + 3], 1u); });
  char address[32];
  std::snprintf(address, sizeof address, "%p", static_cast<void*>(memory.page(2)));
  EXPECT_NE(denied.find("write of 4 bytes at"), std::string::npos) << denied;
  EXPECT_NE(denied.find(std::string("in the mapping ") + address), std::string::npos) << denied;
  EXPECT_NE(denied.find("r--p"), std::string::npos) << denied;
  const std::string missing = message([&](DeviceView& device) { device.load(nowhere); });
  EXPECT_NE(missing.find("nothing is mapped there"), std::string::npos) << missing;
  EXPECT_THROW(mirror_->launch(
                   0, [](DeviceView&) {}, std::vector<Use>{writes(words, kPage)}),
               Error);
  EXPECT_EQ(message([&](DeviceView& device) { device.store(&words[0], 7u); }), "");
  EXPECT_EQ(words[0], 7u);
}

// A launch is told of what owners do: nothing that it stored before goes into what has taken the place of a page, and
// nothing is read there that was read before. Of memory that never went to the device, too, as far as it stores.
TEST_P(Hazard, ALaunchLeavesAloneWhatTakesThePlaceOfAPage) {
  for (const bool migrated : {true, false}) {
    Memory memory(4 * kPage);
    fill(memory, 1);
    if (migrated) {
      ASSERT_TRUE(to_device(memory));
    }
    auto* const words = reinterpret_cast<std::uint32_t*>(memory.data());
    mirror_->launch(0,
                    [&](DeviceView& device) {
                      device.store(&words[7], 99u);
                      device.store(&words[1024 + 7], device.load(&words[2048 + 7]));
                      ::munmap(memory.data(), memory.bytes());
                      ASSERT_EQ(::mmap(memory.data(), memory.bytes(), PROT_READ | PROT_WRITE,
                                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0),
                                memory.data());
                      fill(memory, 2);
                      if (migrated) {
                        EXPECT_EQ(device.load(&words[2048 + 7]), (2048 + 7) * 7 + 2u);
                      }
                      device.store(&words[2048 + 7], (2048 + 7) * 7 + 2u);
                    },
                    {});
    EXPECT_TRUE(holds(memory, 2)) << (migrated ? "migrated" : "never migrated");
  }
}

TEST_P(Hazard, WhatALaunchHasStoredIsDiscardedAndMovesWithItsPage) {
  Memory memory(2 * kPage), target(2 * kPage);
  ASSERT_TRUE(fill_on_device(memory, 1));
  auto* const words = reinterpret_cast<std::uint32_t*>(memory.data());
  auto* const moved = reinterpret_cast<std::uint32_t*>(target.data());
  mirror_->launch(0,
                  [&](DeviceView& device) {
                    device.store(&words[7], 99u);
                    ASSERT_EQ(::madvise(memory.data(), kPage, MADV_DONTNEED), 0);
                    EXPECT_EQ(device.load(&words[7]), 0u);
                    EXPECT_EQ(words[7], 0u);
                    device.store(&words[1024 + 7], 98u);
                    ASSERT_EQ(::mremap(memory.page(1), kPage, kPage, MREMAP_MAYMOVE | MREMAP_FIXED, target.page(1)),
                              target.page(1));
                    EXPECT_EQ(device.load(&moved[1024 + 7]), 98u);
                    ASSERT_EQ(::mmap(memory.page(1), kPage, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0),
                              memory.page(1));
                  },
                  {});
  EXPECT_EQ(words[7], 0u);
  EXPECT_EQ(words[1024 + 7], 0u);
  EXPECT_EQ(moved[1024 + 7], 98u);
}

TEST_P(Hazard, LaunchesAddAtomically) {
  Memory memory(kPage);
  auto* const word = reinterpret_cast<std::uint64_t*>(memory.data());
  constexpr std::uint64_t kTimes = 200;
  std::thread cpu([&] {
    for (std::uint64_t i = 0; i < kTimes; ++i) __atomic_fetch_add(word, 1, __ATOMIC_SEQ_CST);
  });
  mirror_->launch(0,
                  [&](DeviceView& device) {
                    for (std::uint64_t i = 0; i < kTimes; ++i) device.add(word, 2);
                  },
                  {});
  cpu.join();
  EXPECT_EQ(*word, 3 * kTimes);
}

// The device copies within its own memory, which nobody may wait for under the mutex: what it copies from or to is
// absent for the CPU.
TEST_P(Hazard, DeviceCopiesBetweenPagesThatItHas) {
  constexpr std::size_t kBytes = kHuge + 5 * kPage;
  const Memory from(kBytes), to(kBytes);
  fill(from.data(), kBytes, 31);
  fill(to.data(), kBytes, 32);
  ASSERT_TRUE(to_device(from.data(), kBytes));
  ASSERT_TRUE(to_device(to.data(), kBytes));
  const std::size_t skew = 77;
  const auto bytes = std::as_writable_bytes(std::span(to.data() + skew, kBytes - 2 * skew));
  ASSERT_TRUE(mirror_->read(0, from.data() + skew, bytes).ok());
  ASSERT_TRUE(to_device(to.data(), kBytes));
  const auto own = std::as_bytes(std::span(from.data(), skew));
  ASSERT_TRUE(mirror_->write(0, to.data(), own).ok());
  ASSERT_TRUE(mirror_->write(0, to.data() + kBytes - skew, std::as_bytes(std::span(from.page(0), skew))).ok());
  EXPECT_EQ(std::memcmp(to.data(), from.data(), kBytes - skew), 0);
  EXPECT_EQ(std::memcmp(to.data() + kBytes - skew, from.data(), skew), 0);
  EXPECT_TRUE(holds(from.data(), kBytes, 31));
}

INSTANTIATE_TEST_SUITE_P(Rows, Hazard, all_parameters(), parameters_name);

TEST(DirectoryTest, FindsWhatAModelFinds) {
  constexpr std::size_t kPages = 64;
  Directory directory;
  ASSERT_EQ(Directory::make(kPages, directory), Status::kOk);
  std::map<std::uint64_t, std::uint32_t> model;
  Rng rng(7);
  for (std::uint32_t i = 0; i < 20'000; ++i) {
    const std::uint64_t page = 1 + rng.below(200);
    if (model.contains(page)) {
      directory.erase(page);
      model.erase(page);
    } else if (model.size() < kPages) {
      directory.insert({page, i, 0, Place::kDevice, false, false});
      model[page] = i;
    }
    ASSERT_EQ(directory.size(), model.size());
    for (std::uint64_t other = 1; other <= 200; ++other) {
      const Entry* const found = directory.find(other);
      ASSERT_EQ(found != nullptr, model.contains(other));
      if (found != nullptr) {
        ASSERT_EQ(found->slot, model[other]);
      }
    }
  }
}

// Small pages leave page tables behind, in the gate and in the device's memory; a huge page that met one was split.
TEST(HugePagesTest, StayWholeWhereSmallOnesHaveBeen) {
  const auto mirror = Mirror::open({.device_bytes = kHuge});
  ProcessMap map;
  ASSERT_EQ(ProcessMap::open(map), Status::kOk);
  const HugeMemory memory;
  const auto is_huge = [&] {
    return (map.page(reinterpret_cast<std::uintptr_t>(memory.data())) & ProcessMap::kHuge) != 0;
  };
  fill(memory.data(), kHuge, 41);
  if (!is_huge()) GTEST_SKIP() << "the kernel gave no huge page";
  Memory small(16 * kPage);
  ::madvise(small.data(), small.bytes(), MADV_NOHUGEPAGE);
  fill(small, 42);
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(mirror->migrate_to_device(0, small.data(), small.bytes()).ok());
    EXPECT_TRUE(holds(small, 42));
    ASSERT_EQ(mirror->migrate_to_device(0, memory.data(), kHuge).pages, kHuge / kPage);
    EXPECT_TRUE(holds(memory.data(), kHuge, 41));
    EXPECT_TRUE(is_huge()) << "round " << round;
  }
}

TEST(WatchedRangesTest, HoldsWhatAModelHolds) {
  WatchedRanges ranges;
  ASSERT_EQ(WatchedRanges::make(ranges), Status::kOk);
  std::vector<bool> model(300);
  Rng rng(8);
  for (int i = 0; i < 5'000; ++i) {
    const std::uintptr_t begin = rng.below(250);
    const std::uintptr_t end = begin + 1 + rng.below(40);
    const bool add = rng.below(2) == 0;
    if (add) {
      EXPECT_TRUE(ranges.add(begin, end));
    } else {
      ranges.remove(begin, end);
    }
    for (std::uintptr_t at = begin; at < end; ++at) model[at] = add;
    for (std::uintptr_t at = 0; at < 299; ++at) ASSERT_EQ(ranges.holds(at), model[at]) << at;
    const auto from = model.begin() + static_cast<std::ptrdiff_t>(rng.below(290));
    ASSERT_EQ(ranges.overlap(static_cast<std::uintptr_t>(from - model.begin()),
                             static_cast<std::uintptr_t>(from - model.begin()) + 9),
              std::find(from, from + 9, true) != from + 9);
  }
}

}  // namespace
}  // namespace ebb::mirror_test
