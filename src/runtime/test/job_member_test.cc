// A runtime in a job, against a broker that the test plays itself: what it says, that it obeys, and what becomes of it
// when the broker refuses, talks nonsense, or is gone.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <future>
#include <memory>
#include <string>

#include "base/check.h"
#include "ebb/runtime.h"
#include "job/job_socket.h"

namespace ebb {
namespace {

using Kind = JobMessage::Kind;

constexpr std::uint64_t kBlock = 64 * kKiB;
constexpr std::uint64_t kBudget = 32 * kMiB;
constexpr int kWaitMs = 10'000;

class Job : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = (std::filesystem::temp_directory_path() / "ebb-job-XXXXXX").string();
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
    listener_ = listen_job(folder_ + "/job");
    ASSERT_GE(listener_, 0);
    Options options;
    options.memory = kBudget;
    options.flash_bytes = 256 * kMiB;
    options.block_bytes = kBlock;
    options.job = folder_ + "/job";
    options.job_rank = 1;
    options.job_ranks = 2;
    try {
      runtime_ = Runtime::open(options);
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
    member_ = ::accept(listener_, nullptr, nullptr);
    ASSERT_GE(member_, 0);
    const JobMessage hello = next(Kind::kHello);
    EXPECT_EQ(hello.rank, 1);
    EXPECT_EQ(hello.ranks, 2u);
    EXPECT_EQ(hello.most_bytes, kBudget);
    least_ = hello.least_bytes;
  }

  void TearDown() override {
    runtime_.reset();
    for (const int fd : {member_, listener_}) {
      if (fd >= 0) ::close(fd);
    }
    std::filesystem::remove_all(folder_);
  }

  // The next message of this kind; others, which come now and then, are answered or read over.
  JobMessage next(Kind kind) {
    for (;;) {
      pollfd waited{member_, POLLIN, 0};
      EBB_CHECK(::poll(&waited, 1, kWaitMs) == 1);
      JobMessage message;
      EBB_CHECK(receive_job(member_, message) == Received::kMessage);
      if (message.kind == kind) return message;
      if (message.kind == Kind::kFlash) say(Kind::kFlash, 0, 256 * kMiB);
    }
  }

  void say(Kind kind, std::uint64_t serial, std::uint64_t bytes, std::uint32_t report_ms = 0) {
    JobMessage message;
    message.report_ms = report_ms;
    message.kind = kind;
    message.serial = serial;
    message.bytes = bytes;
    EBB_CHECK(send_job(member_, message));
  }

  // Its first memory, so much of it, and that much of the budget.
  std::uint64_t* begin(std::uint64_t budget, std::uint64_t bytes) {
    auto data = std::async(std::launch::async, [&] { return static_cast<std::uint64_t*>(runtime_->allocate(bytes)); });
    static_cast<void>(next(Kind::kNeed));
    say(Kind::kGrant, 1, budget);
    while (data.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) serve();
    return data.get();
  }

  void serve() {
    JobMessage message;
    if (receive_job(member_, message) == Received::kMessage && message.kind == Kind::kFlash) {
      say(Kind::kFlash, 0, 256 * kMiB);
    }
  }

  static void fill(std::uint64_t* words, std::uint64_t bytes) {
    for (std::uint64_t i = 0; i < bytes / sizeof *words; i += 512) words[i] = i;
  }
  static void check(const std::uint64_t* words, std::uint64_t bytes) {
    for (std::uint64_t i = 0; i < bytes / sizeof *words; i += 512) EBB_CHECK_EQ(words[i], i);
  }

  std::string folder_;
  int listener_ = -1;
  int member_ = -1;
  std::uint64_t least_ = 0;
  std::shared_ptr<Runtime> runtime_;
};

TEST_F(Job, ItHasNothingUntilItNeedsSomethingAndThenWhatItIsGiven) {
  std::uint64_t* const data = begin(kBudget / 2, 2 * kBudget);
  fill(data, 2 * kBudget);
  EXPECT_EQ(runtime_->stats().budget_bytes, kBudget / 2);
  EXPECT_LE(runtime_->stats().peak_resident_bytes, kBudget / 2);
  check(data, 2 * kBudget);
  runtime_->deallocate(data);
}

TEST_F(Job, ItReportsAsOftenAsTheGrantSays) {
  constexpr int kReports = 20;
  std::uint64_t* const data = begin(kBudget, kBudget / 2);
  const auto seconds_of_reports = [this] {
    static_cast<void>(next(Kind::kReport));
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kReports; ++i) static_cast<void>(next(Kind::kReport));
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  say(Kind::kGrant, 2, kBudget, 20);
  while (next(Kind::kReport).serial != 2) {
  }
  EXPECT_LT(seconds_of_reports(), kReports * 0.25 / 2);
  say(Kind::kGrant, 3, kBudget);
  while (next(Kind::kReport).serial != 3) {
  }
  EXPECT_GT(seconds_of_reports(), kReports * 0.25 / 2);
  runtime_->deallocate(data);
}

TEST_F(Job, ItConfirmsWhatItHasGivenBack) {
  std::uint64_t* const data = begin(kBudget, 2 * kBudget);
  fill(data, 2 * kBudget);
  say(Kind::kGrant, 2, kBudget / 4);
  JobMessage report = next(Kind::kReport);
  while (report.serial != 2 || report.bytes > kBudget / 4) {
    EXPECT_FALSE(report.stuck);
    EXPECT_LE(report.resident_bytes, report.bytes);
    report = next(Kind::kReport);
  }
  EXPECT_LE(runtime_->stats().resident_bytes, kBudget / 4);
  check(data, 2 * kBudget);
  EXPECT_LE(runtime_->stats().resident_bytes, kBudget / 4);
  say(Kind::kGrant, 3, kBudget);
  while (next(Kind::kReport).serial != 3) {
  }
  EXPECT_EQ(runtime_->stats().budget_bytes, kBudget);
  runtime_->deallocate(data);
}

TEST_F(Job, WhatItCannotGiveItSays) {
  std::uint64_t* const data = begin(kBudget, kMiB);
  say(Kind::kGrant, 2, kBlock);
  JobMessage report = next(Kind::kReport);
  while (report.stuck == 0) report = next(Kind::kReport);
  EXPECT_EQ(report.bytes, kBudget);
  EXPECT_LT(kBlock, report.least_bytes);
  EXPECT_EQ(runtime_->stats().budget_bytes, kBudget);
  runtime_->deallocate(data);
}

TEST_F(Job, ABudgetOfItsOwnStaysBelowWhatItIsGiven) {
  std::uint64_t* const data = begin(kBudget / 2, kMiB);
  runtime_->set_budget(kBudget / 4);
  EXPECT_EQ(runtime_->stats().budget_bytes, kBudget / 4);
  runtime_->set_budget(kBudget);
  EXPECT_EQ(runtime_->stats().budget_bytes, kBudget / 2);
  runtime_->deallocate(data);
}

TEST_F(Job, ARefusalIsAnErrorWhereItAllocates) {
  auto failed = std::async(std::launch::async, [&] { EXPECT_THROW(runtime_->allocate(kMiB), Error); });
  static_cast<void>(next(Kind::kNeed));
  say(Kind::kRefuse, 0, kBudget);
  failed.get();
  std::uint64_t* const data = begin(least_, kMiB);  // it may ask again
  fill(data, kMiB);
  runtime_->deallocate(data);
}

TEST_F(Job, WithoutABrokerItKeepsWhatItHas) {
  std::uint64_t* const data = begin(kBudget / 2, 2 * kBudget);
  ::close(member_);
  member_ = -1;
  fill(data, 2 * kBudget);
  check(data, 2 * kBudget);
  EXPECT_EQ(runtime_->stats().budget_bytes, kBudget / 2);
  runtime_->deallocate(data);
}

TEST_F(Job, WithoutABrokerThereIsNothingToBeHad) {
  const JobMessage nonsense{.magic = 7};
  ASSERT_EQ(::send(member_, &nonsense, sizeof nonsense / 2, 0), static_cast<ssize_t>(sizeof nonsense / 2));
  EXPECT_THROW(runtime_->allocate(kMiB), Error);
}

TEST_F(Job, OnlyItsUserReachesTheSocket) {
  struct stat status {};
  ASSERT_EQ(::stat((folder_ + "/job").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

}  // namespace
}  // namespace ebb
