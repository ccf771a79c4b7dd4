// Memory of the program's own under a runtime's budget: its content and address stay, whatever owner and runtime do.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/rng.h"
#include "base/test/in_a_child.h"
#include "ebb/runtime.h"

namespace ebb {
namespace {

constexpr std::uint64_t kBudget = 24 * kMiB;
constexpr std::uint64_t kLarge = 64 * kMiB;
constexpr std::uint64_t kPage = 4096;

// A private anonymous mapping, aligned to huge pages.
class Mapped {
 public:
  explicit Mapped(std::size_t bytes, bool huge = false) : bytes_(bytes) {
    void* const data =
        ::mmap(nullptr, bytes + 2 * kMiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    EBB_CHECK(data != MAP_FAILED);
    begin_ = static_cast<std::byte*>(data);
    const auto address = reinterpret_cast<std::uintptr_t>(data);
    data_ = begin_ + ((address + 2 * kMiB - 1) / (2 * kMiB) * (2 * kMiB) - address);
    if (huge) ::madvise(data_, bytes, MADV_HUGEPAGE);
  }
  ~Mapped() { ::munmap(begin_, bytes_ + 2 * kMiB); }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;

  std::byte* data() const { return data_; }
  std::span<std::byte> span() const { return {data_, bytes_}; }
  std::uint64_t& word(std::size_t page) const { return *reinterpret_cast<std::uint64_t*>(data_ + page * kPage); }
  std::size_t pages() const { return bytes_ / kPage; }
  void fill(std::uint64_t value) const {
    for (std::size_t i = 0; i < pages(); ++i) word(i) = value + i;
  }
  // The first page that is not as fill() left it, or pages().
  std::size_t check(std::uint64_t value, std::size_t first = 0) const {
    for (std::size_t i = first; i < pages(); ++i) {
      if (word(i) != value + i) return i;
    }
    return pages();
  }

 private:
  std::byte* begin_;
  std::byte* data_;
  std::size_t bytes_;
};

std::uint64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * kPage;
}

// Since `before`, when kLarge was resident. Unknown under a sanitizer, whose shadow is resident, too.
bool all_but_the_budget_left(std::uint64_t before) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  return before > 0;
#else
  return resident_bytes() < before - kLarge + kBudget + 4 * kMiB;
#endif
}

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// While it lives, a process of root's asks for things as nobody, so that it gets userfaultfd for user mode only.
class AsNobody {
 public:
  explicit AsNobody(bool wanted) : changed_(wanted && ::geteuid() == 0) {
    if (changed_) EBB_CHECK_EQ(::seteuid(kNobody), 0);
    if (changed_) ::prctl(PR_SET_DUMPABLE, 1);  // as of a process that began so: /proc/self is its own
  }
  ~AsNobody() {
    if (changed_) EBB_CHECK_EQ(::seteuid(0), 0);
  }
  AsNobody(const AsNobody&) = delete;
  AsNobody& operator=(const AsNobody&) = delete;

 private:
  static constexpr uid_t kNobody = 65534;
  const bool changed_;
};

struct Parameters {
  const char* name;
  std::uint64_t block_bytes;
  bool user_mode_only = false;
};

class Adopt : public testing::TestWithParam<Parameters> {
 protected:
  void SetUp() override {
    Options options;
    options.memory = kBudget;
    options.flash_bytes = 256 * kMiB;
    options.block_bytes = GetParam().block_bytes;
    options.memory_driver = "move";
    try {
      const AsNobody nobody(GetParam().user_mode_only);
      runtime_ = Runtime::open(options);
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
    const bool user_mode_only = runtime_->description().find("user-mode rung") != std::string::npos;
    if (GetParam().user_mode_only && !user_mode_only) GTEST_SKIP() << "here everybody may use full userfaultfd";
  }
  // Makes everything else leave memory.
  void displace() {
    const std::uint64_t bytes = 2 * kBudget;
    auto* const data = static_cast<std::byte*>(runtime_->allocate(bytes));
    for (std::uint64_t at = 0; at < bytes; at += kPage) data[at] = std::byte{1};
    runtime_->deallocate(data);
  }

  std::shared_ptr<Runtime> runtime_;
};

TEST_P(Adopt, LargerThanTheBudgetItKeepsAddressAndContent) {
  const Mapped memory(kLarge);
  memory.fill(7);
  const std::uint64_t before = resident_bytes();
  const std::span<std::byte> adopted = runtime_->adopt(memory.span());
  EXPECT_EQ(adopted.data(), memory.data());
  EXPECT_EQ(adopted.size(), kLarge);
  EXPECT_TRUE(runtime_->manages(memory.data() + 100));
  // What is over the budget has left by now.
  EXPECT_TRUE(all_but_the_budget_left(before)) << resident_bytes();
  EXPECT_EQ(memory.check(7), memory.pages());
  memory.fill(11);
  EXPECT_EQ(memory.check(11), memory.pages());
  const Stats stats = runtime_->stats();
  EXPECT_LE(stats.peak_resident_bytes, stats.budget_bytes);
  EXPECT_GT(stats.evicted_bytes, kLarge - kBudget);
  EXPECT_GT(stats.fetched_bytes, kLarge - kBudget);
  EXPECT_TRUE(all_but_the_budget_left(before)) << resident_bytes();
}

TEST_P(Adopt, ReleasedItIsPlainMemoryAgain) {
  const Mapped memory(kLarge);
  memory.fill(3);
  runtime_->adopt(memory.span());
  EXPECT_EQ(runtime_->release(memory.span()), kLarge);
  EXPECT_FALSE(runtime_->manages(memory.data()));
  EXPECT_EQ(runtime_->release(memory.span()), 0u);
  const std::uint64_t faults = runtime_->stats().faults;
  EXPECT_EQ(memory.check(3), memory.pages());
  EXPECT_EQ(runtime_->stats().faults, faults);
  EXPECT_EQ(runtime_->stats().flash_bytes, 0u);
  EXPECT_EQ(runtime_->stats().live_bytes, 0u);
  runtime_->adopt(memory.span());  // and again
  EXPECT_EQ(memory.check(3), memory.pages());
}

TEST_P(Adopt, TheEndOfTheRuntimeReleases) {
  const Mapped memory(kLarge);
  memory.fill(5);
  runtime_->adopt(memory.span());
  runtime_.reset();
  EXPECT_EQ(memory.check(5), memory.pages());
}

TEST_P(Adopt, OnlyWholeBlocksAreAdopted) {
  const std::uint64_t block = GetParam().block_bytes;
  const Mapped memory(4 * block);
  memory.fill(9);
  const std::span<std::byte> adopted = runtime_->adopt(memory.span().subspan(100, 3 * block));
  EXPECT_EQ(adopted.data(), memory.data() + block);
  EXPECT_EQ(adopted.size(), 2 * block);
  EXPECT_TRUE(runtime_->manages(memory.data() + 100));
  EXPECT_FALSE(runtime_->manages(memory.data() + 99));
  EXPECT_TRUE(runtime_->adopt(memory.span().subspan(0, block - 1)).empty());
  EXPECT_NE(message_of([&] { runtime_->release(memory.span().subspan(0, 2 * block)); }).find("goes beyond"),
            std::string::npos);
  displace();
  EXPECT_EQ(memory.check(9), memory.pages());
}

TEST_P(Adopt, HugePagesAndUntouchedPagesWithHoles) {
  const Mapped huge(16 * kMiB, true);
  huge.fill(21);
  const Mapped sparse(16 * kMiB);
  for (std::size_t i = 0; i < sparse.pages(); i += 7) sparse.word(i) = i;
  runtime_->adopt(huge.span());
  runtime_->adopt(sparse.span());
  displace();
  EXPECT_EQ(huge.check(21), huge.pages());
  for (std::size_t i = 0; i < sparse.pages(); ++i) ASSERT_EQ(sparse.word(i), i % 7 == 0 ? i : 0u);
}

TEST_P(Adopt, WhatTheOwnerDiscardsIsZeroHereAndAway) {
  const Mapped memory(kLarge);
  memory.fill(1);
  runtime_->adopt(memory.span());
  // Part of it is on flash, part is not; borders are within blocks.
  const std::size_t first = 5, count = memory.pages() - 11;
  ASSERT_EQ(::madvise(memory.data() + first * kPage, count * kPage, MADV_DONTNEED), 0);
  for (std::size_t i = 0; i < memory.pages(); ++i) {
    const bool gone = i >= first && i < first + count;
    ASSERT_EQ(memory.word(i), gone ? 0 : 1 + i) << "page " << i;
  }
  memory.fill(2);
  displace();
  EXPECT_EQ(memory.check(2), memory.pages());
}

TEST_P(Adopt, UnmappedByItsOwnerItIsForgotten) {
  auto memory = std::make_unique<Mapped>(kLarge);
  memory->fill(1);
  std::byte* const data = memory->data();
  runtime_->adopt(memory->span());
  memory.reset();
  // New memory at the same address is nobody's but its owner's.
  void* const fresh =
      ::mmap(data, kLarge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  ASSERT_EQ(fresh, data);
  std::memset(data, 42, kLarge);
  displace();
  EXPECT_TRUE(std::all_of(data, data + kLarge, [](std::byte byte) { return byte == std::byte{42}; }));
  // Writes that are under way end first.
  const auto left = [&] { return runtime_->stats().live_bytes + runtime_->stats().flash_bytes; };
  for (int i = 0; i < 500 && left() > 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(left(), 0u);
  EXPECT_FALSE(runtime_->manages(data));
  EXPECT_EQ(runtime_->adopt({data, kLarge}).size(), kLarge);
  displace();
  EXPECT_TRUE(std::all_of(data, data + kLarge, [](std::byte byte) { return byte == std::byte{42}; }));
  EXPECT_EQ(runtime_->discard({data, kLarge}), kLarge);
  ::munmap(data, kLarge);
}

TEST_P(Adopt, TheRuntimeEndsWhileOwnersUnmap) {
  std::vector<std::unique_ptr<Mapped>> kept, unmapped;
  for (int i = 0; i < 12; ++i) {
    for (auto* const list : {&unmapped, &kept}) {
      list->push_back(std::make_unique<Mapped>(GetParam().block_bytes));
      list->back()->fill(6);
      runtime_->adopt(list->back()->span());
    }
  }
  const std::byte* const first = unmapped.front()->data();
  unmapped.clear();
  while (runtime_->manages(first)) std::this_thread::yield();
  runtime_.reset();  // while the others are being forgotten
  for (const auto& memory : kept) EXPECT_EQ(memory->check(6), memory->pages());
}

TEST_P(Adopt, OfAPartThatIsUnmappedTheRestStays) {
  const Mapped memory(kLarge);
  memory.fill(1);
  runtime_->adopt(memory.span());
  const std::size_t first = memory.pages() / 2 + 3;
  ASSERT_EQ(::munmap(memory.data() + first * kPage, kLarge - first * kPage), 0);
  displace();
  for (std::size_t i = 0; i < first; ++i) ASSERT_EQ(memory.word(i), 1 + i) << "page " << i;
  for (std::size_t i = 0; i < first; ++i) memory.word(i) = 2 + i;
  displace();
  runtime_->release(memory.span());
  for (std::size_t i = 0; i < first; ++i) ASSERT_EQ(memory.word(i), 2 + i) << "page " << i;
}

TEST_P(Adopt, MovedByItsOwnerItFollows) {
  Mapped memory(16 * kMiB);
  memory.fill(1);
  runtime_->adopt(memory.span());
  displace();
  const Mapped target(16 * kMiB);
  void* const moved = ::mremap(memory.data(), 16 * kMiB, 16 * kMiB, MREMAP_MAYMOVE | MREMAP_FIXED, target.data());
  ASSERT_EQ(moved, target.data());
  EXPECT_EQ(target.check(1), target.pages());
  target.fill(4);
  displace();
  EXPECT_EQ(target.check(4), target.pages());
}

TEST_P(Adopt, ReadOnlyMeanwhileItComesHomeByCopy) {
  const Mapped memory(16 * kMiB);
  memory.fill(8);
  runtime_->adopt(memory.span());
  displace();
  ASSERT_EQ(::mprotect(memory.data(), 16 * kMiB, PROT_READ), 0);
  EXPECT_EQ(memory.check(8), memory.pages());
  ASSERT_EQ(::mprotect(memory.data(), 16 * kMiB, PROT_READ | PROT_WRITE), 0);
  displace();
  EXPECT_EQ(memory.check(8), memory.pages());
}

TEST_P(Adopt, WhatCannotBeAdoptedIsRefused) {
  const Mapped memory(8 * kMiB);
  memory.fill(1);
  const auto refused = [&](std::span<std::byte> span) { return message_of([&] { runtime_->adopt(span); }); };
  runtime_->adopt(memory.span().first(4 * kMiB));
  EXPECT_NE(refused(memory.span()).find("adopted already"), std::string::npos);
  void* const own = runtime_->allocate(8 * kMiB);
  EXPECT_NE(refused({static_cast<std::byte*>(own), 8 * kMiB}).find("manages it already"), std::string::npos);
  runtime_->deallocate(own);
  const auto map = [](int protection, int flags) {
    void* const data = ::mmap(nullptr, 8 * kMiB, protection, flags | MAP_ANONYMOUS, -1, 0);
    EBB_CHECK(data != MAP_FAILED);
    return std::span<std::byte>(static_cast<std::byte*>(data), 8 * kMiB);
  };
  const auto shared = map(PROT_READ | PROT_WRITE, MAP_SHARED);
  EXPECT_NE(refused(shared).find("shared"), std::string::npos);
  const auto constant = map(PROT_READ, MAP_PRIVATE);
  EXPECT_NE(refused(constant).find("read and written"), std::string::npos);
  const auto locked = map(PROT_READ | PROT_WRITE, MAP_PRIVATE);
  if (::syscall(SYS_mlock, locked.data(), locked.size()) == 0) {  // that of a sanitizer does nothing
    std::memset(locked.data(), 3, locked.size());
    EXPECT_NE(refused(locked).find("unlock it first"), std::string::npos) << refused(locked);
    EXPECT_TRUE(std::all_of(locked.begin(), locked.end(), [](std::byte byte) { return byte == std::byte{3}; }));
  }
  const auto holed = map(PROT_READ | PROT_WRITE, MAP_PRIVATE);
  ::munmap(holed.data() + 4 * kMiB, kPage);
  EXPECT_NE(refused(holed).find("not mapped"), std::string::npos);
  const Mapped vast(512 * kMiB);  // more than memory and flash hold
  EXPECT_NE(refused(vast.span()).find("out of memory"), std::string::npos);
  EXPECT_EQ(memory.check(1), memory.pages());
  for (const auto& span : {shared, constant, locked, holed}) ::munmap(span.data(), span.size());
}

TEST_P(Adopt, AnotherRuntimesMemoryIsRefused) {
  Options options;
  options.memory = kBudget;
  options.flash_bytes = 64 * kMiB;
  const auto other = Runtime::open(options);
  auto* const data = static_cast<std::byte*>(other->allocate(8 * kMiB));
  std::memset(data, 5, 8 * kMiB);
  EXPECT_NE(message_of([&] { runtime_->adopt({data, 8 * kMiB}); }).find("another userfaultfd"), std::string::npos);
  EXPECT_TRUE(std::all_of(data, data + 8 * kMiB, [](std::byte byte) { return byte == std::byte{5}; }));
  other->deallocate(data);
}

TEST_P(Adopt, LaunchesBringItIn) {
  const Mapped memory(8 * kMiB);
  memory.fill(1);
  runtime_->adopt(memory.span());
  displace();
  const Access access{memory.data(), 8 * kMiB};
  const std::uint64_t ticket = runtime_->announce(1, {&access, 1});
  const std::uint64_t faults = runtime_->stats().faults;
  EXPECT_EQ(memory.check(1), memory.pages());
  EXPECT_EQ(runtime_->stats().faults, faults);
  runtime_->retire(ticket);
}

TEST_P(Adopt, ThreadsUseItWhileItComesAndGoes) {
  const Mapped memory(32 * kMiB);
  memory.fill(0);
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> wrong{0};
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      std::vector<std::uint64_t> mine(memory.pages());
      for (std::size_t i = t; i < memory.pages(); i += 3) mine[i] = i;
      Rng rng(t + 1);
      while (!stop) {
        const std::size_t page = rng.below(memory.pages() / 3) * 3 + t;
        wrong += memory.word(page) != mine[page] ? 1 : 0;
        memory.word(page) = ++mine[page];
      }
      for (std::size_t i = t; i < memory.pages(); i += 3) wrong += memory.word(i) != mine[i] ? 1 : 0;
    });
  }
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(runtime_->adopt(memory.span()).size(), memory.span().size());
    displace();
    EXPECT_EQ(runtime_->release(memory.span()), memory.span().size());
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0u);
}

// An owner that changes its mappings in all ways while everything is on the move.
TEST_P(Adopt, OwnersThatChangeTheirMindsLoseNothing) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    Rng rng(seed);
    auto memory = std::make_unique<Mapped>(40 * kMiB);
    std::vector<std::uint64_t> model(memory->pages());
    for (std::size_t i = 0; i < model.size(); ++i) memory->word(i) = model[i] = rng.next();
    runtime_->adopt(memory->span());
    for (int step = 0; step < 60; ++step) {
      const std::size_t first = rng.below(model.size());
      const std::size_t count = rng.between(1, std::min<std::size_t>(model.size() - first, 1500));
      switch (rng.below(4)) {
        case 0:
          ASSERT_EQ(::madvise(memory->data() + first * kPage, count * kPage, MADV_DONTNEED), 0);
          std::fill_n(model.begin() + static_cast<std::ptrdiff_t>(first), count, 0);
          break;
        case 1:
          for (std::size_t i = first; i < first + count; ++i) ASSERT_EQ(memory->word(i), model[i]) << seed << " " << i;
          break;
        case 2:
          for (std::size_t i = first; i < first + count; ++i) memory->word(i) = model[i] = rng.next();
          break;
        default:
          if (rng.chance(1, 4)) {
            runtime_->release(memory->span());
            runtime_->adopt(memory->span());
          }
      }
    }
    for (std::size_t i = 0; i < model.size(); ++i) ASSERT_EQ(memory->word(i), model[i]) << seed << " " << i;
    if (rng.chance(1, 2)) runtime_->release(memory->span());
  }
}

TEST_P(Adopt, AForkedChildSeesTheMomentOfTheFork) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "no fork of a process with threads under a sanitizer's allocator";
#endif
  const Mapped memory(32 * kMiB);
  memory.fill(6);
  runtime_->adopt(memory.span());
  std::array<int, 2> go{};
  ASSERT_EQ(::pipe(go.data()), 0);
  const auto in_child = [&] {
    char byte = 0;
    if (::read(go[0], &byte, 1) != 1) return 3;
    if (memory.check(6) != memory.pages()) return 1;
    memory.fill(100);
    return memory.check(100) == memory.pages() ? 0 : 2;
  };
  expect_end(in_a_child(60, in_child, [&] {
    memory.fill(50);
    EXPECT_EQ(::write(go[1], "x", 1), 1);
  }));
  EXPECT_EQ(memory.check(50), memory.pages());
  ::close(go[0]);
  ::close(go[1]);
}

INSTANTIATE_TEST_SUITE_P(Blocks, Adopt,
                         testing::Values(Parameters{"SixtyFourKibibytes", 64 * kKiB},
                                         Parameters{"TwoMebibytes", 2 * kMiB},
                                         Parameters{"TwoMebibytesUserMode", 2 * kMiB, true}),
                         [](const auto& test) { return test.param.name; });

TEST(AdoptRefused, OnTheFallbackDriver) {
  Options options;
  options.memory = kBudget;
  options.flash_bytes = 64 * kMiB;
  options.memory_driver = "remap";
  std::shared_ptr<Runtime> runtime;
  try {
    runtime = Runtime::open(options);
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  const Mapped memory(8 * kMiB);
  EXPECT_NE(message_of([&] { runtime->adopt(memory.span()); }).find("UFFDIO_MOVE"), std::string::npos);
}

}  // namespace
}  // namespace ebb
