// Adopted memory whose owner tears a block apart while it is on its way home, or moves it at the moment of a fork. The
// rest is in src/runtime/test/adopt_test.cc.
#include "drivers/linux/adopt/adopted_memory.h"

#include <gtest/gtest.h>
#include <linux/userfaultfd.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <thread>

#include "base/check.h"
#include "base/rng.h"
#include "base/test/in_a_child.h"

namespace ebb {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kBlock = 32 << 20;  // in so many calls that somebody comes in between
constexpr BlockIndex kIndex(0);

// Of small pages, which are moved one by one.
std::byte* map_block() {
  void* const data = ::mmap(nullptr, kBlock, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EBB_CHECK(data != MAP_FAILED);
  ::madvise(data, kBlock, MADV_NOHUGEPAGE);
  return static_cast<std::byte*>(data);
}

std::uint64_t& word(std::byte* data, std::size_t page) {
  return *reinterpret_cast<std::uint64_t*>(data + page * kPage);
}

sigjmp_buf g_refused;

// False: the touch fails.
bool read_word(const std::uint64_t& word, std::uint64_t& value) {
  if (sigsetjmp(g_refused, 1) != 0) return false;
  value = static_cast<const volatile std::uint64_t&>(word);
  return true;
}

struct Outcome {
  std::uint64_t wrong = 0, refused = 0;
};

// One block, of which a part is moved when its first page has gone home.
void tear(const Userfault& home, std::byte* frame, Rng& rng, Outcome& outcome) {
  std::unique_ptr<AdoptedMemory> adopted;
  ASSERT_EQ(AdoptedMemory::make(kBlock, home, adopted), Status::kOk);
  std::byte* const memory = map_block();
  std::byte* const target = map_block();
  for (std::size_t i = 0; i < kBlock / kPage; ++i) word(memory, i) = i + 1;
  adopted->add({kIndex, 1}, memory);
  ASSERT_EQ(adopted->join(kIndex), Status::kOk);
  std::atomic<bool> ended{false};
  std::thread fault_thread([&] {
    while (!ended) adopted->apply_changes();
  });
  std::thread mover([&] { static_cast<void>(adopted->detach(kIndex, frame)); });  // if a page is pinned, it stays
  for (unsigned char here = 1; (here & 1) != 0;) ::mincore(memory, kPage, &here);
  const std::size_t pages = kBlock / kPage / 4 * rng.between(1, 3);
  const std::size_t first = rng.chance(1, 2) ? 0 : kBlock / kPage - pages;
  void* const moved =
      ::mremap(memory + first * kPage, pages * kPage, pages * kPage, MREMAP_MAYMOVE | MREMAP_FIXED, target);
  EXPECT_EQ(moved, target);
  mover.join();
  for (std::size_t i = 0; i < pages; ++i) {
    std::uint64_t value = 0;
    if (!read_word(word(target, i), value)) {
      ++outcome.refused;
    } else if (value != first + i + 1) {
      ++outcome.wrong;
    }
  }
  // The hole that was left may be another mapping by now: of a thread that has just started.
  ::munmap(memory, first * kPage);
  ::munmap(memory + (first + pages) * kPage, kBlock - (first + pages) * kPage);
  ::munmap(target, kBlock);
  ended = true;
  fault_thread.join();
}

TEST(AdoptedMemoryTest, WhatIsTornApartOnItsWayHomeIsRightOrFails) {
  Userfault home;
  if (Userfault::open(home) != Status::kOk || !home.can_move()) GTEST_SKIP() << "no UFFDIO_MOVE here";
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = [](int) { siglongjmp(g_refused, 1); };
  ::sigaction(SIGSEGV, &action, &before);
  Rng rng(7);
  Outcome outcome;
  for (int round = 0; round < 12; ++round) {
    std::byte* const frame = map_block();
    ASSERT_EQ(home.watch(frame, kBlock), 0);
    tear(home, frame, rng, outcome);
    ::munmap(frame, kBlock);
  }
  ::sigaction(SIGSEGV, &before, nullptr);
  EXPECT_EQ(outcome.wrong, 0u) << outcome.refused << " refused";
}

// A part torn away stays what it is wherever it goes, and however many there are.
TEST(AdoptedMemoryTest, PartsTornAwayFromWhatIsAwayFailWhereverTheyGo) {
  Userfault home;
  if (Userfault::open(home) != Status::kOk || !home.can_move()) GTEST_SKIP() << "no UFFDIO_MOVE here";
  std::unique_ptr<AdoptedMemory> adopted;
  ASSERT_EQ(AdoptedMemory::make(kBlock, home, adopted), Status::kOk);
  std::byte* const frame = map_block();
  ASSERT_EQ(home.watch(frame, kBlock), 0);
  std::byte* const memory = map_block();
  std::byte* const targets[] = {map_block(), map_block()};
  for (std::size_t i = 0; i < kBlock / kPage; ++i) word(memory, i) = i + 1;
  adopted->add({kIndex, 1}, memory);
  ASSERT_EQ(adopted->join(kIndex), Status::kOk);
  ASSERT_EQ(adopted->detach(kIndex, frame), Status::kOk);
  std::atomic<bool> ended{false};
  std::thread fault_thread([&] {
    while (!ended) adopted->apply_changes();
  });
  constexpr std::size_t kParts = 40;
  for (std::size_t i = 0; i < kParts; ++i) {
    const std::byte* from = memory + 2 * i * kPage;
    for (std::byte* const target : targets) {
      ASSERT_EQ(
          ::mremap(const_cast<std::byte*>(from), kPage, kPage, MREMAP_MAYMOVE | MREMAP_FIXED, target + 2 * i * kPage),
          target + 2 * i * kPage);
      from = target + 2 * i * kPage;
    }
  }
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = [](int) { siglongjmp(g_refused, 1); };
  ::sigaction(SIGSEGV, &action, &before);
  for (std::size_t i = 0; i < kParts; ++i) {
    std::uint64_t value = 0;
    EXPECT_FALSE(read_word(word(targets[1], 2 * i), value)) << i << " reads " << value;
  }
  ::sigaction(SIGSEGV, &before, nullptr);
  // The holes that were left may be other mappings by now.
  for (std::byte* const data : {memory, targets[0]}) {
    for (std::size_t i = 0; i < kParts; ++i) ::munmap(data + (2 * i + 1) * kPage, kPage);
    ::munmap(data + 2 * kParts * kPage, kBlock - 2 * kParts * kPage);
  }
  ::munmap(targets[1], kBlock);
  ended = true;
  fault_thread.join();
  ::munmap(frame, kBlock);
}

// What others have mapped in its place meanwhile is theirs in the child, too.
TEST(AdoptedMemoryTest, AChildLeavesAloneWhatHasTakenThePlaceOfABlock) {
  Userfault home;
  if (Userfault::open(home) != Status::kOk || !home.can_move()) GTEST_SKIP() << "no UFFDIO_MOVE here";
  std::unique_ptr<AdoptedMemory> adopted;
  ASSERT_EQ(AdoptedMemory::make(kBlock, home, adopted), Status::kOk);
  std::byte* const memory = map_block();
  std::byte* const target = map_block();
  adopted->add({kIndex, 1}, memory);
  ASSERT_EQ(adopted->join(kIndex), Status::kOk);
  adopted->before_fork();
  std::thread owner([&] { ::mremap(memory, kBlock, kBlock, MREMAP_MAYMOVE | MREMAP_FIXED, target); });
  void* other = MAP_FAILED;
  while (other == MAP_FAILED) {
    other = ::mmap(memory, kBlock, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  }
  const int end = in_a_child(10, [&] {
    adopted->after_fork();
    Userfault faults;
    if (Userfault::open(faults) != Status::kOk || adopted->enter_child(faults) != Status::kOk) return 1;
    return word(memory, 1) == 0 && adopted->gone(kIndex) ? 0 : 2;  // a touch that nobody is asked to serve
  });
  EXPECT_EQ(end, 0);
  adopted->after_fork();
  std::atomic<bool> ended{false};
  std::thread fault_thread([&] {
    while (!ended) adopted->apply_changes();
  });
  owner.join();
  ::munmap(memory, kBlock);
  ::munmap(target, kBlock);
  ended = true;
  fault_thread.join();
}

// One block of small pages, of which each holds its number, and a frame for it.
struct OneBlock {
  static constexpr std::size_t kBytes = 256 * 1024;

  bool make() {
    if (Userfault::open(home) != Status::kOk || !home.can_move()) return false;
    if (AdoptedMemory::make(kBytes, home, adopted) != Status::kOk || home.watch(frame, kBytes) != 0) return false;
    for (std::size_t i = 0; i < kBytes / kPage; ++i) word(memory, i) = i + 1;
    adopted->add({kIndex, 1}, memory);
    return adopted->join(kIndex) == Status::kOk;
  }
  bool is_in(std::byte* place) const {
    std::size_t right = 0;
    for (std::size_t i = 0; i < kBytes / kPage; ++i) right += word(place, i) == i + 1 ? 1 : 0;
    return right == kBytes / kPage;
  }
  // Away, and here again.
  int to_and_fro() {
    if (adopted->detach(kIndex, frame) != Status::kOk) return 10;
    if (!is_in(frame)) return 11;
    adopted->attach(frame, kIndex);
    return is_in(memory) ? 0 : 12;
  }

  std::byte* const frame = map_block();
  std::byte* const memory = map_block();
  Userfault home;
  std::unique_ptr<AdoptedMemory> adopted;
};

// Touches of homes and of what no block owns are answered with zeros, which must not be taken for what is to come
// there.
TEST(AdoptedMemoryTest, WhatIsAwayKeepsItsContentWhenAllMemoryOfTheProcessIsPopulated) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "terabytes of shadow would be populated";
#endif
  expect_end(in_a_child(60, [] {
    OneBlock block;
    if (!block.make()) return kSkip;
    std::atomic<bool> ended{false};
    std::thread fault_thread([&] {
      uffd_msg message;
      while (!ended) {
        block.adopted->apply_changes();
        if (!block.home.read(message) || message.event != UFFD_EVENT_PAGEFAULT) continue;
        auto* const page = reinterpret_cast<std::byte*>(message.arg.pagefault.address / kPage * kPage);
        static_cast<void>(block.home.zero_all(page, kPage));
      }
    });
    const bool locked = ::mlockall(MCL_CURRENT) == 0;
    ::munlockall();
    ended = true;
    fault_thread.join();
    if (!locked) return kSkip;
    const int first = block.to_and_fro();
    return first != 0 ? first : block.to_and_fro();
  }));
}

// Of a block that is lost, what stands behind a hole of its owner's fails as well, and comes back as well.
TEST(AdoptedMemoryTest, ALostBlockFailsOnBothSidesOfAHole) {
  expect_end(in_a_child(20, [] {
    OneBlock block;
    if (!block.make()) return kSkip;
    if (block.adopted->detach(kIndex, block.frame) != Status::kOk) return 1;
    std::atomic<bool> ended{false};
    std::thread fault_thread([&] {
      while (!ended) block.adopted->apply_changes();
    });
    ::munmap(block.memory + 8 * kPage, kPage);
    ended = true;
    fault_thread.join();
    block.adopted->fail(kIndex);
    struct sigaction action {};
    action.sa_handler = [](int) { siglongjmp(g_refused, 1); };
    ::sigaction(SIGSEGV, &action, nullptr);
    std::uint64_t value = 0;
    for (const std::size_t page : {std::size_t{7}, std::size_t{9}}) {
      if (read_word(word(block.memory, page), value)) return 2;
    }
    block.adopted->attach(block.frame, kIndex);
    for (const std::size_t page : {std::size_t{7}, std::size_t{9}}) {
      if (!read_word(word(block.memory, page), value) || value != page + 1) return 3;
    }
    return 0;
  }));
}

TEST(AdoptedMemoryTest, ABlockComesToAFrameThatWasPopulated) {
  expect_end(in_a_child(60, [] {
    OneBlock block;
    if (!block.make()) return kSkip;
    if (block.home.zero_all(block.frame, OneBlock::kBytes / 2) != Status::kOk) return 1;
    return block.to_and_fro();
  }));
}

TEST(AdoptedMemoryTest, ABlockComesToAFrameThatIsLocked) {
  expect_end(in_a_child(60, [] {
    OneBlock block;
    if (!block.make()) return kSkip;
    if (::mlock2(block.frame, OneBlock::kBytes, MLOCK_ONFAULT) != 0) return kSkip;
    return block.to_and_fro();
  }));
}

}  // namespace
}  // namespace ebb
