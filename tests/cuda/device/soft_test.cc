// The software driver itself: what a GPU would punish, it finds, whoever runs first. Without this the other tests here
// would prove nothing.
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "drivers/cuda/cuda_api.h"
#include "soft/soft_driver.h"

namespace ebb {
namespace {

using namespace cuda;

constexpr std::size_t kBytes = 64 * 1024;

class SoftCuda : public testing::Test {
 protected:
  void SetUp() override {
    soft::reset();
    std::string reason;
    ASSERT_EQ(Api::load(EBB_SOFT_CUDA, api_, reason), Status::kOk) << reason;
    Context context = nullptr;
    ASSERT_EQ(api_.init(0), kSuccess);
    ASSERT_EQ(api_.context_retain(&context, 0), kSuccess);
    ASSERT_EQ(api_.context_push(context), kSuccess);
    properties_.type = kAllocationPinned;
    properties_.location = {kLocationDevice, 0};
    ASSERT_EQ(api_.reserve(&space_, 4 * kBytes, kBytes, 0, 0), kSuccess);
    ASSERT_EQ(api_.create(&handle_, kBytes, &properties_, 0), kSuccess);
    ASSERT_EQ(api_.map(space_, kBytes, 0, handle_, 0), kSuccess);
    const AccessDescriptor access{properties_.location, kAccessReadWrite};
    ASSERT_EQ(api_.set_access(space_, kBytes, &access, 1), kSuccess);
    ASSERT_EQ(soft::new_stream(&first_), kSuccess);
    ASSERT_EQ(soft::new_stream(&second_), kSuccess);
  }
  void TearDown() override {
    Context context = nullptr;
    EXPECT_EQ(api_.context_pop(&context), kSuccess);
    soft::reset();
  }

  std::byte* at(std::size_t offset) const { return reinterpret_cast<std::byte*>(space_) + offset; }
  int write(void* stream, std::size_t offset, std::size_t bytes, int value = 7) {
    std::byte* const data = at(offset);
    const soft::Touch touch{data, bytes, true};
    return soft::launch(stream, {&touch, 1}, [=] { std::memset(data, value, bytes); });
  }
  // Says that it writes, and does not: the race is found all the same, and a sanitizer has nothing to find.
  int claim(void* stream, std::size_t offset, std::size_t bytes) {
    const soft::Touch touch{at(offset), bytes, true};
    return soft::launch(stream, {&touch, 1}, [] {});
  }
  bool complained(const std::string& word) {
    for (const std::string& violation : soft::take_violations()) {
      if (violation.find(word) != std::string::npos) return true;
    }
    return false;
  }

  Api api_;
  AllocationProperties properties_{};
  Pointer space_ = 0;
  Handle handle_ = 0;
  void* first_ = nullptr;
  void* second_ = nullptr;
};

TEST_F(SoftCuda, FindsWorkThatNothingOrders) {
  EXPECT_EQ(claim(first_, 0, kBytes), kSuccess);
  EXPECT_EQ(claim(second_, kBytes / 2, 64), kSuccess);
  EXPECT_TRUE(complained("race"));
}

TEST_F(SoftCuda, FindsRacesOfCopies) {
  void* host = nullptr;
  ASSERT_EQ(api_.host_allocate(&host, kBytes, 0), kSuccess);
  EXPECT_EQ(claim(first_, 0, kBytes), kSuccess);
  EXPECT_EQ(api_.copy_out(host, space_, kBytes, static_cast<Stream>(second_)), kSuccess);
  EXPECT_TRUE(complained("race"));
  EXPECT_EQ(soft::order(second_, first_), kSuccess);
  EXPECT_EQ(api_.copy_in(space_, host, kBytes, static_cast<Stream>(first_)), kSuccess);
  EXPECT_FALSE(complained("race"));
}

TEST_F(SoftCuda, AcceptsWhatIsOrdered) {
  EXPECT_EQ(write(first_, 0, kBytes), kSuccess);
  Event event = nullptr;
  ASSERT_EQ(api_.event_create(&event, 0), kSuccess);
  ASSERT_EQ(api_.event_record(event, static_cast<Stream>(first_)), kSuccess);
  ASSERT_EQ(api_.stream_wait(static_cast<Stream>(second_), event, 0), kSuccess);
  EXPECT_EQ(write(second_, 0, kBytes), kSuccess);
  // Back by way of the host.
  EXPECT_EQ(soft::wait_for(second_), kSuccess);
  EXPECT_EQ(write(first_, 0, kBytes), kSuccess);
  // Neighbours.
  EXPECT_EQ(soft::wait_for(first_), kSuccess);
  EXPECT_EQ(write(first_, 0, 512), kSuccess);
  EXPECT_EQ(write(second_, 512, 512), kSuccess);
  EXPECT_TRUE(soft::take_violations().empty());
}

TEST_F(SoftCuda, ReadersMayBeTogether) {
  const soft::Touch touch{at(0), kBytes, false};
  EXPECT_EQ(soft::launch(first_, {&touch, 1}, [] {}), kSuccess);
  EXPECT_EQ(soft::launch(second_, {&touch, 1}, [] {}), kSuccess);
  EXPECT_TRUE(soft::take_violations().empty());
  EXPECT_EQ(write(second_, 0, 64), kSuccess);
  EXPECT_TRUE(complained("race"));
}

TEST_F(SoftCuda, AnnouncedTouchOfUnmappedMemoryBreaksTheContext) {
  EXPECT_EQ(write(first_, kBytes, 64), kSuccess);  // found when it runs
  EXPECT_EQ(soft::wait_for(first_), kIllegalAddress);
  EXPECT_EQ(write(second_, 0, 64), kIllegalAddress);
  Event event = nullptr;
  EXPECT_EQ(api_.event_create(&event, 0), kIllegalAddress);
}

TEST_F(SoftCuda, HiddenTouchOfUnmappedMemoryBreaksTheContext) {
  std::byte* const data = at(2 * kBytes);
  EXPECT_EQ(soft::launch(first_, {}, [=] { std::memset(data, 1, 64); }), kSuccess);
  EXPECT_EQ(soft::wait_for(first_), kIllegalAddress);
}

TEST_F(SoftCuda, MappedIsNotPermitted) {
  ASSERT_EQ(api_.map(space_ + kBytes, kBytes, 0, handle_, 0), kSuccess);
  EXPECT_EQ(write(first_, kBytes, 64), kSuccess);
  EXPECT_EQ(soft::wait_for(first_), kIllegalAddress);
}

TEST_F(SoftCuda, OneFrameAtTwoAddressesIsTheSameMemory) {
  ASSERT_EQ(api_.map(space_ + kBytes, kBytes, 0, handle_, 0), kSuccess);
  const AccessDescriptor access{properties_.location, kAccessReadWrite};
  ASSERT_EQ(api_.set_access(space_ + kBytes, kBytes, &access, 1), kSuccess);
  EXPECT_EQ(write(first_, 0, 64, 42), kSuccess);
  EXPECT_EQ(soft::wait_for(first_), kSuccess);
  std::byte seen{0};
  std::byte* const alias = at(kBytes);
  const soft::Touch touch{alias, 64, false};
  EXPECT_EQ(soft::launch(second_, {&touch, 1}, [&seen, alias] { seen = alias[63]; }), kSuccess);
  EXPECT_EQ(soft::wait_for(second_), kSuccess);
  EXPECT_EQ(seen, std::byte{42});
  // And what touches both at once races.
  EXPECT_EQ(claim(first_, 0, 64), kSuccess);
  EXPECT_EQ(claim(second_, kBytes, 64), kSuccess);
  EXPECT_TRUE(complained("race"));
}

TEST_F(SoftCuda, FindsUnmappingInUse) {
  EXPECT_EQ(claim(first_, 0, 64), kSuccess);
  EXPECT_EQ(api_.unmap(space_, kBytes), kSuccess);  // the host does not know that it is over, whether or not it is
  EXPECT_TRUE(complained("unmapped"));
}

TEST_F(SoftCuda, CopiesNeedPinnedMemory) {
  static std::byte ordinary[kBytes];
  EXPECT_EQ(api_.copy_in(space_, ordinary, kBytes, static_cast<Stream>(first_)), kSuccess);
  EXPECT_TRUE(complained("not pinned"));
  EXPECT_EQ(soft::wait_for(first_), kSuccess);
}

TEST_F(SoftCuda, CountsWhatIsLeft) {
  const soft::Live live = soft::live();
  EXPECT_EQ(live.reservations, 1u);
  EXPECT_EQ(live.mappings, 1u);
  EXPECT_EQ(live.handles, 1u);
  EXPECT_EQ(live.streams, 2u);
  EXPECT_EQ(live.contexts, 1u);
  EXPECT_EQ(live.total(), 6u);
}

TEST_F(SoftCuda, FailsOnDemand) {
  Event event = nullptr;
  soft::fail_call(2, kOutOfMemory, "cuEventCreate");
  EXPECT_EQ(api_.event_create(&event, 0), kSuccess);
  EXPECT_EQ(api_.event_create(&event, 0), kOutOfMemory);
  EXPECT_EQ(api_.event_create(&event, 0), kSuccess);
  EXPECT_EQ(soft::calls(), 3u);
  soft::lose(kUncorrectable);
  EXPECT_EQ(api_.event_create(&event, 0), kUncorrectable);
}

}  // namespace
}  // namespace ebb
