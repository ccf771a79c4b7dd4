// What a program does to the mappings of files that a runtime serves, through the functions of libebb_calls: as the
// kernel has it on mappings of its own, on every driver.
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/rng.h"
#include "ebb/runtime.h"
#include "noise_file.h"

namespace ebb {
namespace {

constexpr std::uint64_t kBlock = 64 * kKiB;
constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kBytes = 6 * kMiB + 20 * kKiB + 123;

// The library's functions, beside the C library's own.
struct Calls {
  Calls() {
    void* const library = ::dlopen(EBB_CALLS, RTLD_NOW | RTLD_GLOBAL);
    EBB_CHECK(library != nullptr);
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
    };
    find(map, "mmap");
    find(unmap, "munmap");
    find(advise, "madvise");
    find(protect, "mprotect");
  }
  decltype(&::mmap) map = nullptr;
  decltype(&::munmap) unmap = nullptr;
  decltype(&::madvise) advise = nullptr;
  decltype(&::mprotect) protect = nullptr;
};

const Calls& calls() {
  static const Calls all;
  return all;
}

// Before any runtime looks for the library, which it does once in a process. The thread sanitizer, which keeps signal
// handlers of its own, is spared it.
#ifdef __SANITIZE_THREAD__
constexpr bool kLoaded = false;
#else
constexpr bool kLoaded = true;
[[maybe_unused]] const Calls& g_loaded = calls();
#endif

class MappedCallsTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!kLoaded) GTEST_SKIP() << "the library is not loaded beside the thread sanitizer";
    Options options;
    options.memory = 3 * kMiB;
    options.block_bytes = kBlock;
    options.flash = ::testing::TempDir();
    options.flash_bytes = 64 * kMiB;
    options.memory_driver = GetParam();
    options.map_files = true;
    try {
      runtime_ = Runtime::open(options);
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
    fd_ = ::open(file_.path().c_str(), O_RDONLY | O_CLOEXEC);
  }
  void TearDown() override {
    if (fd_ >= 0) ::close(fd_);
  }

  std::span<std::byte> map(int protection, int flags, int fd = -1) {
    void* const data = calls().map(nullptr, kBytes, protection, flags, fd >= 0 ? fd : fd_, 0);
    return data == MAP_FAILED ? std::span<std::byte>() : std::span(static_cast<std::byte*>(data), kBytes);
  }
  int advise(std::span<std::byte> memory, int advice) {
    errno = 0;
    return calls().advise(memory.data(), memory.size(), advice) == 0 ? 0 : errno;
  }
  int protect(std::span<std::byte> memory, int protection) {
    errno = 0;
    return calls().protect(memory.data(), memory.size(), protection) == 0 ? 0 : errno;
  }
  bool is_file(std::span<const std::byte> mapped, std::uint64_t at, std::uint64_t bytes) const {
    return std::memcmp(mapped.data() + at, file_.content().data() + at, bytes) == 0;
  }

  const NoiseFile file_{kBytes};
  std::shared_ptr<Runtime> runtime_;
  int fd_ = -1;
};

void flip(std::span<std::byte> memory) {
  for (std::byte& byte : memory) byte ^= std::byte{0xff};
}

TEST_P(MappedCallsTest, WhatIsDiscardedIsAsTheFileHasIt) {
  const std::span<std::byte> mapped = map(PROT_READ | PROT_WRITE, MAP_PRIVATE);
  ASSERT_TRUE(runtime_->manages(mapped.data()));
  // Absent blocks, written ones that are here, and such that have left.
  EXPECT_EQ(advise(mapped, MADV_DONTNEED), 0);
  EXPECT_TRUE(is_file(mapped, 0, kBytes));
  for (int turn = 0; turn < 2; ++turn) {
    flip(mapped);
    EXPECT_EQ(advise(mapped, MADV_DONTNEED), 0);
    EXPECT_TRUE(is_file(mapped, 0, kBytes));
  }
  EXPECT_GT(runtime_->stats().rewritten_bytes, 0u);
  const std::uint64_t whole = (kBytes + kBlock - 1) / kBlock * kBlock;
  EXPECT_TRUE(std::all_of(mapped.data() + kBytes, mapped.data() + whole, [](std::byte b) { return b == std::byte{}; }));
  EXPECT_TRUE(file_.is_as_made());
}

TEST_P(MappedCallsTest, APartOfABlockIsDiscardedAlone) {
  const std::span<std::byte> mapped = map(PROT_READ | PROT_WRITE, MAP_PRIVATE);
  struct Part {
    std::uint64_t at, bytes;
  };
  const std::uint64_t last = kBytes / kPage * kPage;
  for (const Part part : {Part{0, kPage},
                          {3 * kPage, 5 * kPage},
                          {kBlock - kPage, 2 * kPage},
                          {7 * kBlock + kPage, 3 * kBlock},
                          {last, kBytes - last},
                          {kBytes / 2 / kPage * kPage, kPage}}) {
    for (const bool away : {false, true}) {
      flip(mapped.subspan(part.at, part.bytes));
      std::byte& before = part.at == 0 ? mapped[part.bytes] : mapped[part.at - 1];
      const std::byte was = before;
      before = std::byte{42};
      if (away) static_cast<void>(std::count(mapped.begin(), mapped.end(), std::byte{}));  // more than fits
      EXPECT_EQ(advise(mapped.subspan(part.at, part.bytes), MADV_DONTNEED), 0);
      EXPECT_TRUE(is_file(mapped, part.at, part.bytes)) << part.at << " + " << part.bytes << " away " << away;
      EXPECT_EQ(before, std::byte{42});
      before = was;
    }
  }
  EXPECT_TRUE(is_file(mapped, 0, kBytes));
}

TEST_P(MappedCallsTest, WhoReadsMeanwhileSeesTheFile) {
  const std::span<std::byte> mapped = map(PROT_READ, MAP_PRIVATE);
  std::atomic<bool> over{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> readers;
  for (std::uint64_t first = 0; first < 3; ++first) {
    readers.emplace_back([&, first] {
      for (std::uint64_t at = first * kPage; !over; at = (at + 7 * kPage) % (kBytes - kPage)) {
        if (!is_file(mapped, at, kPage)) ++wrong;
      }
    });
  }
  Rng rng(1);
  for (int i = 0; i < 500; ++i) {
    const std::uint64_t at = rng.below(kBytes / kPage) * kPage;
    const std::uint64_t bytes = std::min((1 + rng.below(40)) * kPage, kBytes - at);
    EXPECT_EQ(advise(mapped.subspan(at, bytes), MADV_DONTNEED), 0);
  }
  over = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong, 0);
}

TEST_P(MappedCallsTest, WhatWasUnmappedIsLeftAlone) {
  const std::span<std::byte> mapped = map(PROT_READ | PROT_WRITE, MAP_PRIVATE);
  flip(mapped);
  EXPECT_EQ(calls().unmap(mapped.data() + 3 * kBlock, 5 * kBlock), 0);
  EXPECT_EQ(advise(mapped, MADV_DONTNEED), 0);
  EXPECT_TRUE(is_file(mapped, 0, 3 * kBlock));
  EXPECT_TRUE(is_file(mapped, 8 * kBlock, kBytes - 8 * kBlock));
}

TEST_P(MappedCallsTest, AForkedChildDiscardsItsOwn) {
  const std::span<std::byte> mapped = map(PROT_READ | PROT_WRITE, MAP_PRIVATE);
  flip(mapped.first(9 * kBlock));
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    const bool done = advise(mapped.subspan(kPage, 5 * kBlock), MADV_DONTNEED) == 0;
    const bool rest = mapped[0] == (file_.content()[0] ^ std::byte{0xff});
    ::_exit(done && rest && is_file(mapped, kPage, 5 * kBlock) && is_file(mapped, 9 * kBlock, kBlock) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  flip(mapped.first(9 * kBlock));
  EXPECT_TRUE(is_file(mapped, 0, kBytes));
}

// The kernel's answers, for mappings of files.
TEST_P(MappedCallsTest, OtherAdviceIsAnsweredAsByTheKernel) {
  void* const other = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd_, 0);
  ASSERT_NE(other, MAP_FAILED);
  const std::span<std::byte> kernels(static_cast<std::byte*>(other), kBytes);
  const std::span<std::byte> mapped = map(PROT_READ | PROT_WRITE, MAP_PRIVATE);
  mapped[5] = kernels[5] = std::byte{1};
  for (const int advice : {MADV_NORMAL, MADV_RANDOM, MADV_SEQUENTIAL, MADV_WILLNEED, MADV_COLD, MADV_PAGEOUT, MADV_FREE,
                           MADV_REMOVE, MADV_DONTFORK, MADV_DOFORK, MADV_HUGEPAGE, MADV_POPULATE_READ}) {
    const int expected = ::madvise(kernels.data(), kernels.size(), advice) == 0 ? 0 : errno;
    EXPECT_EQ(advise(mapped, advice), expected) << advice;
  }
  EXPECT_EQ(mapped[5], std::byte{1});
  EXPECT_EQ(advise(mapped.subspan(1, kPage), MADV_DONTNEED), EINVAL);
  ::munmap(other, kBytes);
}

TEST_P(MappedCallsTest, WhatIsOnlyReadBecomesPrivateWhenItMayBeWritten) {
  const std::span<std::byte> mapped = map(PROT_READ, MAP_PRIVATE);
  ASSERT_TRUE(runtime_->manages(mapped.data()));
  EXPECT_EQ(protect(mapped, PROT_READ | PROT_WRITE), 0);
  flip(mapped);
  EXPECT_EQ(protect(mapped, PROT_READ), 0);
  flip(mapped);
  EXPECT_TRUE(is_file(mapped, 0, kBytes));
  EXPECT_TRUE(file_.is_as_made());
}

TEST_P(MappedCallsTest, ASharedMappingStaysReadOnly) {
  const std::span<std::byte> mapped = map(PROT_READ, MAP_SHARED);
  ASSERT_TRUE(runtime_->manages(mapped.data()));
  EXPECT_EQ(protect(mapped, PROT_READ | PROT_WRITE), EACCES);
  EXPECT_EQ(protect(mapped.subspan(0, kPage), PROT_READ | PROT_WRITE), EACCES);
  EXPECT_EQ(protect(mapped, PROT_READ), 0);
  EXPECT_EQ(advise(mapped, MADV_POPULATE_WRITE), EINVAL);
  EXPECT_EQ(advise(mapped, MADV_DONTNEED), 0);
  EXPECT_TRUE(is_file(mapped, 0, kBytes));
}

// Through such a descriptor the program may write, and then must see it: also where no lease tells of it.
TEST_P(MappedCallsTest, WhatIsOpenForWritingIsTheKernels) {
  const int fd = ::open(file_.path().c_str(), O_RDWR | O_CLOEXEC);
  for (const int kind : {MAP_PRIVATE, MAP_SHARED}) {
    const std::span<std::byte> mapped = map(PROT_READ, kind, fd);
    EXPECT_FALSE(runtime_->manages(mapped.data()));
    calls().unmap(mapped.data(), kBytes);
  }
  ::close(fd);
  for (const int flags : {O_WRONLY, O_PATH}) {
    const int other = ::open(file_.path().c_str(), flags | O_CLOEXEC);
    EXPECT_TRUE(map(PROT_READ, MAP_PRIVATE, other).empty());
    EXPECT_EQ(errno, flags == O_PATH ? EBADF : EACCES);
    ::close(other);
  }
}

TEST_P(MappedCallsTest, WholePagesAreMappedFromWholePages) {
  EXPECT_EQ(calls().map(nullptr, 2 * kMiB, PROT_READ, MAP_PRIVATE, fd_, 100), MAP_FAILED);
  EXPECT_EQ(errno, EINVAL);
  // The rest of the last page is the file's.
  void* const data = calls().map(nullptr, kMiB + 7, PROT_READ, MAP_PRIVATE, fd_, 3 * kPage);
  ASSERT_TRUE(runtime_->manages(data));
  EXPECT_EQ(std::memcmp(data, file_.content().data() + 3 * kPage, kMiB + kPage), 0);
}

TEST_P(MappedCallsTest, ManyMappingsOfOneFile) {
  constexpr int kMany = 2000;
  std::vector<std::span<std::byte>> all;
  for (int i = 0; i < kMany; ++i) {
    const auto offset = static_cast<off_t>(i % 500 * kPage);
    void* const data = calls().map(nullptr, kMiB, PROT_READ, MAP_PRIVATE, fd_, offset);
    ASSERT_NE(data, MAP_FAILED) << i;
    all.push_back({static_cast<std::byte*>(data), kMiB});
    ASSERT_EQ(all.back()[9], file_.content()[static_cast<std::uint64_t>(offset) + 9]) << i;
  }
  const Stats stats = runtime_->stats();
  EXPECT_LE(stats.peak_resident_bytes, stats.budget_bytes);
  for (const std::span<std::byte> one : all) EXPECT_EQ(calls().unmap(one.data(), one.size()), 0);
  EXPECT_EQ(runtime_->stats().live_bytes, 0u);
}

INSTANTIATE_TEST_SUITE_P(Drivers, MappedCallsTest, testing::Values("move", "remap"),
                         [](const auto& driver) { return std::string(driver.param); });

}  // namespace
}  // namespace ebb
