// CudaMirror: kernels on the process's own memory, on the software driver as a GPU with access to pageable memory, and
// on a GPU that has it. The software driver checks what such a GPU would not forgive: memory that is not there.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <numeric>
#include <thread>
#include <vector>

#include "mirror_program.h"

namespace ebb {
namespace {

class CudaMirrorTest : public CudaMirrorBase, public testing::WithParamInterface<World> {
 protected:
  void SetUp() override { open(GetParam() == World::kGpu); }
  void TearDown() override { close(); }
};

INSTANTIATE_TEST_SUITE_P(All, CudaMirrorTest, testing::Values(World::kSoft, World::kGpu), name_of);

// Anonymous memory, or a file's; unmapped at the end.
class Mapped {
 public:
  static constexpr std::size_t kBytes = 64 * kKiB;
  static constexpr std::size_t kCount = kBytes / sizeof(float);
  explicit Mapped(std::FILE* file = nullptr, std::size_t file_bytes = kBytes) {
    const int flags = file != nullptr ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
    if (file != nullptr) {
      EXPECT_EQ(::ftruncate(::fileno(file), static_cast<off_t>(file_bytes)), 0);
    }
    void* const at = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, flags, file != nullptr ? ::fileno(file) : -1, 0);
    EXPECT_NE(at, MAP_FAILED);
    data = static_cast<float*>(at);
  }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;
  ~Mapped() { ::munmap(data, kBytes); }
  void protect(int protection) { ASSERT_EQ(::mprotect(data, kBytes, protection), 0); }

  float* data = nullptr;
};

TEST_P(CudaMirrorTest, OnMemoryOfEveryKind) {
  constexpr std::int64_t kCount = 5000;
  std::vector<float> heap(kCount);
  std::iota(heap.begin(), heap.end(), 1.0F);
  float stack[kCount] = {};
  scale(heap.data(), stack, 2, kCount);
  const Mapped anonymous;  // that nobody has touched
  scale(heap.data(), anonymous.data, 3, kCount);
  std::FILE* const file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  const Mapped mapped(file);
  scale(heap.data(), mapped.data, 4, kCount);
  mirror_->synchronize();
  expect_scaled(heap.data(), stack, 2, kCount);
  expect_scaled(heap.data(), anonymous.data, 3, kCount);
  float first[3] = {};
  ASSERT_EQ(::pread(::fileno(file), first, sizeof first, 0), static_cast<ssize_t>(sizeof first));
  EXPECT_EQ(first[2], 12.0F);
  std::fclose(file);
}

TEST_P(CudaMirrorTest, ReadsWhatIsReadOnly) {
  Mapped constant;
  std::iota(constant.data, constant.data + Mapped::kCount, 0.0F);
  constant.protect(PROT_READ);
  std::vector<float> y(Mapped::kCount);
  scale(constant.data, y.data(), 5, Mapped::kCount);
  mirror_->synchronize();
  expect_scaled(constant.data, y.data(), 5, Mapped::kCount);
}

TEST_P(CudaMirrorTest, WhatMayNotBeTouchedIsRefusedBeforeAnythingRuns) {
  Mapped constant;
  constant.protect(PROT_READ);
  Mapped closed;
  closed.protect(PROT_NONE);
  std::vector<float> y(Mapped::kCount, 7.0F);
  const auto refused = [&](const float* from, float* to) {
    return said(Status::kInvalid, [&] { scale(from, to, 1, Mapped::kCount); });
  };
  std::string why = refused(y.data(), constant.data);
  EXPECT_TRUE(contains(why, "'scale'") && contains(why, "writes 65536 bytes") && contains(why, " r--p")) << why;
  why = refused(closed.data, y.data());
  EXPECT_TRUE(contains(why, "reads 65536 bytes") && contains(why, " ---p")) << why;
  float* gone = nullptr;
  { gone = Mapped().data; }
  why = refused(gone, y.data());
  EXPECT_TRUE(contains(why, "nothing is mapped there")) << why;
  why = refused(nullptr, y.data());
  EXPECT_TRUE(contains(why, "a null pointer")) << why;
  std::FILE* const file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  {
    const Mapped mapped(file, 4096);
    why = refused(mapped.data, y.data());
    EXPECT_TRUE(contains(why, "beyond the end of the file")) << why;
  }
  std::fclose(file);
  mirror_->synchronize();
  EXPECT_EQ(y, std::vector<float>(Mapped::kCount, 7.0F));
}

TEST_P(CudaMirrorTest, PagesMoveWhenAsked) {
  Mapped x;
  std::iota(x.data, x.data + Mapped::kCount, 0.0F);
  const Mapped y;
  const bool moves = mirror_->migrate_to_device(x.data, Mapped::kBytes);
  scale(x.data, y.data, 2, Mapped::kCount);
  EXPECT_EQ(mirror_->migrate_to_host(x.data, 4096), moves);
  mirror_->synchronize();
  expect_scaled(x.data, y.data, 2, Mapped::kCount);
  const auto refused = [&](const void* data, std::size_t bytes) {
    return said(Status::kInvalid, [&] { mirror_->migrate_to_device(data, bytes); });
  };
  EXPECT_TRUE(contains(refused(x.data + 1, 4096), "whole pages"));
  EXPECT_TRUE(contains(refused(x.data, 100), "whole pages"));
  x.protect(PROT_NONE);
  EXPECT_TRUE(contains(refused(x.data, 4096), "---p"));
  if (!is_soft_) return;
  const std::vector<soft::Prefetch> asked = soft::take_prefetches();
  ASSERT_EQ(asked.size(), 2u);
  EXPECT_TRUE(asked[0].address == x.data && asked[0].bytes == Mapped::kBytes && asked[0].device == 0);
  EXPECT_TRUE(asked[1].address == x.data && asked[1].bytes == 4096 && asked[1].device == -1);
}

// Two threads on one stream, and a third with a stream of its own.
TEST_P(CudaMirrorTest, ThreadsAndStreams) {
  constexpr std::size_t kCount = 3000;
  const auto work = [&](CudaMirror* other) {
    std::vector<float> x(kCount), y(kCount);
    std::iota(x.begin(), x.end(), 0.0F);
    for (int round = 1; round <= 10; ++round) {
      scale(x.data(), y.data(), static_cast<float>(round), kCount, nullptr, other);
    }
    (other != nullptr ? *other : *mirror_).synchronize();
    expect_scaled(x.data(), y.data(), 10, kCount);
  };
  const std::shared_ptr<CudaMirror> second = CudaMirror::open(options_);
  std::vector<std::thread> threads;
  for (CudaMirror* const mirror : {mirror_.get(), mirror_.get(), second.get()}) {
    threads.emplace_back([&, mirror] { work(mirror); });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace ebb
