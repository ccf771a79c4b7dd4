// Launches on memory of the process, on every way to the device: what they compute, what they leave alone, and what
// becomes of a bad argument.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <thread>

#include "opencl_fixture.h"

namespace ebb::opencl_test {
namespace {

constexpr std::size_t kPage = 4096;

// Pages of one's own, unmapped at the end.
class Pages {
 public:
  explicit Pages(std::size_t count, int protection = PROT_READ | PROT_WRITE, int flags = MAP_PRIVATE | MAP_ANONYMOUS)
      : bytes_(count * kPage), data_(::mmap(nullptr, bytes_, protection, flags, -1, 0)) {}
  ~Pages() { ::munmap(data_, bytes_); }
  template <typename T>
  T* as(std::size_t page = 0) const {
    return reinterpret_cast<T*>(static_cast<std::byte*>(data_) + page * kPage);
  }
  void protect(std::size_t page, int protection) const { ::mprotect(as<char>(page), kPage, protection); }
  void unmap(std::size_t page) const { ::munmap(as<char>(page), kPage); }

 private:
  std::size_t bytes_;
  void* data_;
};

INSTANTIATE_TEST_SUITE_P(All, OpenClWays, testing::ValuesIn(ways()),
                         [](const testing::TestParamInfo<Way>& way) { return way.param.name; });

TEST_P(OpenClWays, AnyMemoryOfTheProcessIsAnArgument) {
  const auto kernel = device_->compile(kSource, "axpy");
  constexpr std::size_t kCount = 1000;
  static float in_data[kCount + 2];
  float on_stack[kCount + 2];
  const auto on_heap = std::make_unique<float[]>(kCount + 2);
  const Pages shared(1, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS);
  std::vector<float> x(kCount);
  std::iota(x.begin(), x.end(), 1.0f);
  for (float* y : {in_data, on_stack, on_heap.get(), shared.as<float>()}) {
    std::fill_n(y, kCount + 2, 0.5f);
    device_->launch(*kernel, {kCount}, {2.0f, reads(x.data(), kCount), updates(y + 1, kCount)});
    for (std::size_t i = 0; i < kCount; ++i) ASSERT_EQ(y[i + 1], 2.0f * x[i] + 0.5f) << i;
    EXPECT_EQ(y[0], 0.5f);  // its neighbours are somebody else's
    EXPECT_EQ(y[kCount + 1], 0.5f);
  }
  EXPECT_EQ(device_->stats().launches, 4u);
}

TEST_P(OpenClWays, AFileMayBeReadAndWritten) {
  std::FILE* const file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  ASSERT_EQ(::ftruncate(::fileno(file), 2 * kPage), 0);
  auto* const mapped =
      static_cast<int*>(::mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, ::fileno(file), 0));
  ASSERT_NE(mapped, MAP_FAILED);
  device_->launch(*device_->compile(kSource, "fill"), {2 * kPage / 4}, {overwrites(mapped, 2 * kPage / 4), 5});
  int last = 0;
  ASSERT_EQ(::pread(::fileno(file), &last, sizeof last, 2 * kPage - sizeof last), 4);
  EXPECT_EQ(last, 5 + 2 * static_cast<int>(kPage) / 4 - 1);
  ::munmap(mapped, 2 * kPage);
  std::fclose(file);
}

TEST_P(OpenClWays, WhatIsNotWrittenStays) {
  std::vector<int> out(64, 3);
  const OpenClReport report =
      device_->launch(*device_->compile(kSource, "every_second"), {32}, {writes(out.data(), 64)});
  for (std::size_t i = 0; i < 64; ++i) ASSERT_EQ(out[i], i % 2 == 0 ? 7 : 3) << i;
  const bool staged = GetParam().path == OpenClPath::kStaged;
  EXPECT_EQ(report.shared_bytes, staged ? 0u : 256u);
  EXPECT_EQ(report.copied_in_bytes, staged ? 256u : 0u);
  EXPECT_EQ(report.copied_out_bytes, staged ? 256u : 0u);
}

TEST_P(OpenClWays, OnlyWhatIsNeededIsCopied) {
  std::vector<int> a(256, 1), b(256, 2), out(256);
  const OpenClReport report =
      device_->launch(*device_->compile(kSource, "sum2"), {256},
                      {reads(a.data(), 256), reads(b.data(), 256), overwrites(out.data(), 256)});
  EXPECT_EQ(out, std::vector<int>(256, 3));
  const bool staged = GetParam().path == OpenClPath::kStaged;
  EXPECT_EQ(report.copied_in_bytes, staged ? 2048u : 0u);
  EXPECT_EQ(report.copied_out_bytes, staged ? 1024u : 0u);
  EXPECT_EQ(layer_->host_buffers.load() > 0, GetParam().path == OpenClPath::kHostPointer);
  EXPECT_EQ(layer_->pointers.load() > 0, GetParam().path == OpenClPath::kSystemSvm);
  EXPECT_EQ(layer_->device_buffers.load() > 0, staged);
}

TEST_P(OpenClWays, TheSameMemoryTwiceIsOneMemory) {
  std::vector<int> a(100, 4);
  device_->launch(*device_->compile(kSource, "sum2"), {100},
                  {reads(a.data(), 100), reads(a.data(), 50), overwrites(a.data(), 100)});
  EXPECT_EQ(a, std::vector<int>(100, 8));
}

TEST_P(OpenClWays, OverlapsAreReadAndNotWritten) {
  const auto kernel = device_->compile(kSource, "sum2");
  std::vector<int> a(101), out(100);
  std::iota(a.begin(), a.end(), 0);
  device_->launch(*kernel, {100}, {reads(a.data(), 100), reads(a.data() + 1, 100), overwrites(out.data(), 100)});
  for (int i = 0; i < 100; ++i) ASSERT_EQ(out[i], 2 * i + 1);
  const auto overlapping = [&] {
    device_->launch(*kernel, {50}, {reads(a.data(), 50), reads(a.data(), 50), overwrites(a.data() + 49, 50)});
  };
  if (GetParam().path == OpenClPath::kSystemSvm) {
    overlapping();
    EXPECT_EQ(a[49], 0);
    return;
  }
  const Error error = error_of(overlapping);
  EXPECT_EQ(error.status(), Status::kInvalid);
  EXPECT_NE(std::string(error.what()).find("overlap"), std::string::npos) << error.what();
  EXPECT_EQ(a[49], 49);
}

TEST_P(OpenClWays, MemoryThatTheTypesOfTheKernelDoNotFitIsStaged) {
  const Pages pages(2);
  float* const x = pages.as<float>() + 1;
  float* const y = pages.as<float>(1) + 3;
  std::iota(x, x + 64, 1.0f);
  const OpenClReport report =
      device_->launch(*device_->compile(kSource, "copy4"), {16}, {reads(x, 64), overwrites(y, 64)});
  EXPECT_TRUE(std::equal(x, x + 64, y));
  EXPECT_EQ(report.shared_bytes, 0u);
  EXPECT_EQ(report.copied_in_bytes, 256u);
}

TEST_P(OpenClWays, ReadOnlyMemoryMayBeRead) {
  const Pages pages(1);
  std::iota(pages.as<int>(), pages.as<int>() + 100, 0);
  pages.protect(0, PROT_READ);
  std::vector<int> out(100);
  device_->launch(*device_->compile(kSource, "sum2"), {100},
                  {reads(pages.as<int>(), 100), reads(pages.as<int>(), 100), overwrites(out.data(), 100)});
  EXPECT_EQ(out[99], 198);
}

// Each bad argument fails its launch, with its address in the message; nothing was written, and the next launch runs.
TEST_P(OpenClWays, ABadAddressFailsItsLaunchAndNothingElse) {
  const auto kernel = device_->compile(kSource, "sum2");
  const Pages pages(6);
  constexpr std::size_t kInts = 3 * kPage / sizeof(int);
  std::vector<int> good(kInts, 1), out(kInts, 9);
  std::memset(pages.as<char>(), 1, 6 * kPage);
  struct Case {
    int protection;  // of the page in the middle; -1: unmapped
    bool written;
    const char* what;
  };
  for (const Case& one : {Case{PROT_NONE, false, "---p"}, Case{PROT_NONE, true, "---p"}, Case{PROT_READ, true, "r--p"},
                          Case{-1, false, "nothing is mapped"}, Case{-1, true, "nothing is mapped"}}) {
    SCOPED_TRACE(one.what);
    if (one.protection >= 0) pages.protect(1, one.protection);
    if (one.protection < 0) pages.unmap(1);
    int* const bad = pages.as<int>();
    const Error error = error_of([&] {
      device_->launch(*kernel, {kInts},
                      {reads(one.written ? good.data() : bad, kInts), reads(good.data(), kInts),
                       overwrites(one.written ? bad : out.data(), kInts)});
    });
    char address[32];
    std::snprintf(address, sizeof address, "%p", pages.as<void>(1));
    const std::string text = error.what();
    EXPECT_EQ(error.status(), Status::kInvalid);
    EXPECT_NE(text.find(address), std::string::npos) << text;
    EXPECT_NE(text.find(one.what), std::string::npos) << text;
    EXPECT_NE(text.find(one.written ? "writes" : "reads"), std::string::npos) << text;
    EXPECT_NE(text.find("'sum2'"), std::string::npos) << text;
    EXPECT_EQ(out[0], 9);
    EXPECT_EQ(bad[0], 0x01010101);
  }
  device_->launch(*kernel, {kInts},
                  {reads(good.data(), kInts), reads(good.data(), kInts), overwrites(out.data(), kInts)});
  EXPECT_EQ(out[kInts - 1], 2);
}

TEST_P(OpenClWays, PagesBeyondTheEndOfAFileAreABadAddress) {
  std::FILE* const file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  ASSERT_EQ(::ftruncate(::fileno(file), kPage), 0);
  void* const mapped = ::mmap(nullptr, 3 * kPage, PROT_READ, MAP_SHARED, ::fileno(file), 0);
  ASSERT_NE(mapped, MAP_FAILED);
  std::vector<int> out(3 * kPage / 4);
  const auto run = [&](std::size_t count) {
    device_->launch(*device_->compile(kSource, "sum2"), {count},
                    {reads(static_cast<int*>(mapped), count), reads(out.data(), count), updates(out.data(), count)});
  };
  run(kPage / 4);
  const Error error = error_of([&] { run(3 * kPage / 4); });
  EXPECT_NE(std::string(error.what()).find("beyond the end of the file"), std::string::npos) << error.what();
  ::munmap(mapped, 3 * kPage);
  std::fclose(file);
}

TEST_P(OpenClWays, ManyThreadsMayLaunch) {
  const auto kernel = device_->compile(kSource, "axpy");
  std::vector<std::thread> threads;
  std::array<bool, 4> right{};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::vector<float> x(4096, static_cast<float>(t + 1)), y(4096, 0.0f);
      for (int round = 0; round < 25; ++round) {
        device_->launch(*kernel, {4096}, {1.0f, reads(x.data(), 4096), updates(y.data(), 4096)});
      }
      right[t] =
          std::all_of(y.begin(), y.end(), [&](float value) { return value == 25.0f * static_cast<float>(t + 1); });
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, (std::array<bool, 4>{true, true, true, true}));
}

TEST_P(OpenClWays, NothingIsLeftBehind) {
  std::vector<int> out(100);
  device_->launch(*device_->compile(kSource, "fill"), {100}, {overwrites(out.data(), 100), 1});
  EXPECT_EQ(layer_->live[Layer::kBuffer].load(), GetParam().path == OpenClPath::kStaged ? 1 : 0);  // kept for the next
  EXPECT_EQ(layer_->live[Layer::kEvent].load(), 0);
  device_.reset();
  for (const auto& live : layer_->live) EXPECT_EQ(live.load(), 0);
}

TEST_F(OpenClTest, BuffersForCopiesAreKeptAndBounded) {
  const auto device = open({.path = OpenClPath::kStaged});
  const auto kernel = device->compile(kSource, "fill");
  std::vector<int> out(100);
  const auto run = [&](std::size_t count) { device->launch(*kernel, {count}, {overwrites(out.data(), count), 1}); };
  run(100);
  run(100);
  EXPECT_EQ(layer_->device_buffers.load(), 1);
  for (std::size_t count = 1; count <= 50; ++count) run(count);
  EXPECT_EQ(layer_->live[Layer::kBuffer].load(), 8);
  layer_->calls = 0;
  layer_->fail_at = 0;  // no room for another: what was kept is given up, and the launch runs
  run(60);
  EXPECT_EQ(layer_->live[Layer::kBuffer].load(), 1);
  EXPECT_EQ(out[59], 60);
}

TEST_F(OpenClTest, RangesHaveUpToThreeDimensions) {
  const auto device = open();
  std::vector<int> out(48, -1);
  device->launch(*device->compile(kSource, "table"), {.x = 8, .y = 6, .group_x = 4, .group_y = 2},
                 {overwrites(out.data(), 48)});
  for (int y = 0; y < 6; ++y) {
    for (int x = 0; x < 8; ++x) ASSERT_EQ(out[y * 8 + x], 100 * (y % 2) + x % 4);
  }
  device->launch(*device->compile(kSource, "table"), {.x = 0}, {overwrites(out.data(), 48)});  // nothing to do
  EXPECT_EQ(error_of([&] {
              device->launch(*device->compile(kSource, "table"), {.x = 9, .group_x = 4}, {overwrites(out.data(), 48)});
            }).status(),
            Status::kInvalid);
}

TEST_F(OpenClTest, NoBytesAreANullPointer) {
  const auto device = open();
  int out = 0;
  const int* const none = nullptr;
  device->launch(*device->compile(kSource, "is_null"), {1}, {overwrites(&out, 1), reads(none, 0)});
  EXPECT_EQ(out, 1);
}

TEST_F(OpenClTest, ArgumentsThatDoNotFitTheKernelAreRefused) {
  const auto device = open();
  const auto kernel = device->compile(kSource, "axpy");
  std::vector<float> x(8), y(8);
  const auto refused = [&](std::initializer_list<OpenClArgument> arguments, const char* why) {
    const Error error = error_of([&] { device->launch(*kernel, {8}, arguments); });
    EXPECT_EQ(error.status(), Status::kInvalid);
    EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << error.what();
  };
  refused({1.0f, reads(x.data(), 8)}, "3 parameters");
  refused({1.0f, std::uint64_t{1}, updates(y.data(), 8)}, "argument 1 is a pointer");
  refused({reads(x.data(), 8), reads(x.data(), 8), updates(y.data(), 8)}, "argument 0 is a number");
  refused({1.0, reads(x.data(), 8), updates(y.data(), 8)}, "CL_INVALID_ARG_SIZE");
  refused({1.0f, reads(static_cast<float*>(nullptr), 8), updates(y.data(), 8)}, "null pointer");
  refused({1.0f, Use{Use::Kind::kReads, x.data(), ~std::size_t{0}, nullptr}, updates(y.data(), 8)}, "addresses");
  const Error local = error_of([&] {
    device->launch(*device->compile(kSource, "with_local"), {1}, {updates(y.data(), 8), reads(x.data(), 1)});
  });
  EXPECT_NE(std::string(local.what()).find("__local"), std::string::npos) << local.what();
}

}  // namespace
}  // namespace ebb::opencl_test
