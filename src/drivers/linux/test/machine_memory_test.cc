// What is read of a machine, on files as kernels write them.
#include "drivers/linux/system/machine_memory.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "ebb/units.h"

namespace ebb {
namespace {

class MachineFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = (std::filesystem::temp_directory_path() / "ebb-machine-XXXXXX").string();
    ASSERT_NE(::mkdtemp(root_.data()), nullptr);
    write(
        "/proc/meminfo",
        "MemTotal:       16777216 kB\nMemFree:         1000000 kB\nMemAvailable:    8388608 kB\nSwapTotal: 1024 kB\n");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path whole = root_ + path;
    std::filesystem::create_directories(whole.parent_path());
    std::ofstream(whole) << text;
  }
  void unified(const std::string& group) {
    write("/proc/self/cgroup", "0::" + group + "\n");
    write("/proc/self/mountinfo", "35 24 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n");
  }
  MachineMemory read() const { return MemoryReader(root_).read(); }

  std::string root_;
};

TEST_F(MachineFiles, WithoutControlGroupsAndPressureThereIsTheMachine) {
  const MachineMemory memory = read();
  EXPECT_EQ(memory.total_bytes, 16 * kGiB);
  EXPECT_EQ(memory.available_bytes, 8 * kGiB);
  EXPECT_EQ(memory.most_bytes(), 16 * kGiB);
  EXPECT_TRUE(memory.limits.empty());
  EXPECT_FALSE(memory.stall_us.has_value() || memory.group_stall_us.has_value());
}

TEST_F(MachineFiles, EveryLimitUpToTheRootCountsAndPageCacheIsFree) {
  unified("/user/app");
  write("/sys/fs/cgroup/user/app/memory.max", "max\n");
  write("/sys/fs/cgroup/user/app/memory.high", "4294967296\n");
  write("/sys/fs/cgroup/user/app/memory.current", "3221225472\n");
  write("/sys/fs/cgroup/user/app/memory.stat", "anon 1\nfile 5\ninactive_file 1073741824\nactive_file 536870912\n");
  write("/sys/fs/cgroup/user/memory.max", "6442450944\n");
  write("/sys/fs/cgroup/user/memory.current", "6442450944\n");
  write("/sys/fs/cgroup/user/memory.stat", "inactive_file 0\nactive_file 1048576\n");
  const MachineMemory memory = read();
  ASSERT_EQ(memory.limits.size(), 2u);
  EXPECT_EQ(memory.limits[0].limit_bytes, 4 * kGiB);
  EXPECT_EQ(memory.limits[0].left_bytes, 2 * kGiB + 512 * kMiB);
  EXPECT_EQ(memory.limits[1].left_bytes, kMiB);
  EXPECT_EQ(memory.usable_bytes(), kMiB);
  EXPECT_EQ(memory.most_bytes(), 4 * kGiB);
}

TEST_F(MachineFiles, ALimitThatIsSetLaterIsSeen) {
  unified("/app");
  write("/sys/fs/cgroup/app/memory.max", "max\n");
  const MemoryReader reader(root_);
  EXPECT_TRUE(reader.read().limits.empty());
  write("/sys/fs/cgroup/app/memory.max", "1073741824\n");
  EXPECT_EQ(reader.read().limit_bytes, kGiB);
}

TEST_F(MachineFiles, TheOldHierarchyCountsAsWell) {
  write("/proc/self/cgroup", "9:cpu:/\n4:memory:/box/7\n0::/\n");
  write("/proc/self/mountinfo",
        "34 31 0:31 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
        "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("/sys/fs/cgroup/memory/box/7/memory.limit_in_bytes", "2147483648\n");
  write("/sys/fs/cgroup/memory/box/7/memory.usage_in_bytes", "2147483648\n");
  write("/sys/fs/cgroup/memory/box/7/memory.stat",
        "inactive_file 1\nactive_file 1\ntotal_inactive_file 1048576\ntotal_active_file 1048576\n");
  const MachineMemory memory = read();
  ASSERT_EQ(memory.limits.size(), 1u);
  EXPECT_EQ(memory.limits[0].limit_bytes, 2 * kGiB);
  EXPECT_EQ(memory.limits[0].left_bytes, 2 * kMiB);
}

TEST_F(MachineFiles, PressureIsThatOfTheMachineAndOfOurOwnGroup) {
  unified("/app");
  const std::string full = "full avg10=0.00 avg60=0.00 avg300=0.00 total=5\n";
  write("/proc/pressure/memory", "some avg10=1.00 avg60=0.00 avg300=0.00 total=123456789\n" + full);
  write("/sys/fs/cgroup/app/memory.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=42\n" + full);
  const MachineMemory memory = read();
  EXPECT_EQ(memory.stall_us, 123456789u);
  EXPECT_EQ(memory.group_stall_us, 42u);
}

TEST_F(MachineFiles, WhatIsNoSuchFileIsLeftOut) {
  unified("/app");
  write("/proc/pressure/memory", "");
  write("/sys/fs/cgroup/app/memory.pressure", "some avg10=0.00 total=x\n");
  write("/sys/fs/cgroup/app/memory.max", "");
  std::filesystem::remove(root_ + "/proc/meminfo");
  const MachineMemory memory = read();
  EXPECT_EQ(memory.total_bytes, 0u);
  EXPECT_TRUE(memory.limits.empty());
  EXPECT_FALSE(memory.stall_us.has_value() || memory.group_stall_us.has_value());
}

}  // namespace
}  // namespace ebb
