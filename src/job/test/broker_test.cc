// The broker of a job, one promise at a time.
#include "job/broker.h"

#include <gtest/gtest.h>

namespace ebb {
namespace {

constexpr std::uint64_t kMib = 1 << 20;
constexpr std::uint64_t kBudget = 400 * kMib;
constexpr std::uint64_t kLeast = 19 * kMib;
constexpr std::uint64_t kThird = kBudget / 3 / 4096 * 4096;

using Share = JobBroker::Share;

// Members that do at once what they are told.
class Job {
 public:
  explicit Job(Share share = Share::kStalls) : broker(kBudget, share) {}

  void join(JobBroker::Id id, std::int32_t rank = -1, std::uint32_t ranks = 0) {
    broker.join(id, {rank, ranks, kLeast, kBudget});
  }
  void start(JobBroker::Id id, std::int32_t rank = -1, std::uint32_t ranks = 0) {
    join(id, rank, ranks);
    broker.need(id);
    settle();
  }
  void tell(JobBroker::Id id, std::uint32_t stall, std::uint64_t resident) {
    const JobBroker::Member& member = broker.members().at(id);
    broker.report(id, {member.serial, member.granted, resident, kLeast, stall, false});
    broker.validate();
  }
  // 2 needs memory, and 1 has it: what 1 is told.
  JobBroker::Order ask_one_for_two() {
    start(1);
    join(2);
    broker.need(2);
    const auto orders = broker.take_orders();
    EXPECT_EQ(orders.size(), 1u);
    return orders.empty() ? JobBroker::Order{} : orders[0];
  }
  // Until nobody has anything to confirm.
  void settle() {
    for (auto orders = broker.take_orders(); !orders.empty(); orders = broker.take_orders()) {
      for (const auto& order : orders) {
        if (order.refused) {
          refused.push_back(order.id);
          continue;
        }
        const JobBroker::Member& member = broker.members().at(order.id);
        broker.report(order.id, {order.serial, order.bytes, member.resident, kLeast, 0, false});
        broker.validate();
      }
    }
  }
  void tick(int times = 1) {
    for (int i = 0; i < times; ++i) {
      broker.tick();
      broker.validate();
      settle();
    }
  }
  std::uint64_t granted(JobBroker::Id id) const { return broker.members().at(id).granted; }

  JobBroker broker;
  std::vector<JobBroker::Id> refused;
};

TEST(JobBroker, OneProcessHasEverything) {
  Job job;
  job.start(1);
  EXPECT_EQ(job.granted(1), kBudget);
}

TEST(JobBroker, WhoOnlyJoinsHasNothing) {
  Job job;
  job.join(1);
  job.start(2, 0, 2);
  job.start(3, 1, 2);
  job.tick(100);
  EXPECT_EQ(job.granted(1), 0u);
  EXPECT_EQ(job.granted(2), kBudget / 2);
  EXPECT_EQ(job.granted(3), kBudget / 2);
}

TEST(JobBroker, ANewcomerHasItsMinimumAndThenWhatItWaitsFor) {
  Job job;
  job.start(1);
  job.start(2);
  EXPECT_EQ(job.granted(2), kLeast);
  EXPECT_EQ(job.granted(1), kBudget - kLeast);
  for (int i = 0; i < 400; ++i) {
    job.tell(1, 0, kBudget);
    job.tell(2, 900, kBudget);
    job.tick();
  }
  EXPECT_LT(kBudget * 3 / 4, job.granted(2));
  EXPECT_LE(kLeast, job.granted(1));
}

TEST(JobBroker, WhatNobodyUsesMovesAtOnce) {
  Job job;
  job.start(1);
  job.start(2);
  for (int i = 0; i < 20; ++i) {
    job.tell(1, 0, 100 * kMib);
    job.tell(2, 300, kBudget);
    job.tick();
  }
  EXPECT_LT(kBudget / 2, job.granted(2));
}

TEST(JobBroker, ThoseThatWaitAlikeKeepWhatTheyHave) {
  Job job;
  job.start(1, 0, 2);
  job.start(2, 1, 2);
  for (int i = 0; i < 200; ++i) {
    job.tell(1, 300, kBudget);
    job.tell(2, 330, kBudget);
    job.tick();
  }
  EXPECT_EQ(job.granted(1), kBudget / 2);
  EXPECT_EQ(job.granted(2), kBudget / 2);
}

TEST(JobBroker, EqualSharesStayEqual) {
  Job job(Share::kEqual);
  job.start(1);
  job.start(2);
  job.start(3);
  job.tick(10);
  for (const JobBroker::Id id : {1u, 2u, 3u}) EXPECT_EQ(job.granted(id), kThird) << id;
  for (int i = 0; i < 100; ++i) {
    job.tell(1, 900, kBudget);
    job.tick();
  }
  EXPECT_EQ(job.granted(1), kThird);
  job.broker.leave(3);
  job.tick(5);
  EXPECT_EQ(job.granted(1), kBudget / 2);
}

TEST(JobBroker, NothingIsGrantedTwice) {
  Job job;
  const JobBroker::Order order = job.ask_one_for_two();
  EXPECT_EQ(order.id, 1u);
  EXPECT_EQ(job.granted(2), 0u);
  // What it said before it was given what it has says nothing.
  job.broker.report(1, {order.serial - 2, kLeast, 0, kLeast, 0, false});
  EXPECT_EQ(job.granted(2), 0u);
  job.broker.report(1, {order.serial, order.bytes + 1, 0, kLeast, 0, false});
  EXPECT_EQ(job.granted(2), 0u);
  job.broker.report(1, {order.serial, order.bytes, 0, kLeast, 0, false});
  EXPECT_EQ(job.granted(2), kLeast);
}

TEST(JobBroker, WhatTheDeadHadIsFree) {
  Job job;
  job.start(1, 0, 2);
  job.start(2, 1, 2);
  job.broker.leave(1);
  job.start(3, 0, 2);
  EXPECT_EQ(job.granted(3), kBudget / 2);
  job.broker.leave(3);
  job.tick(2);
  EXPECT_EQ(job.granted(2), kBudget);
}

TEST(JobBroker, FlashIsGivenAsLongAsThereIsSome) {
  JobBroker broker(kBudget, Share::kStalls, 100);
  const auto ask = [&broker](JobBroker::Id id, std::uint64_t bytes) {
    broker.need_flash(id, bytes);
    broker.validate();
    return broker.take_orders().at(0).bytes;
  };
  broker.join(1, {-1, 0, kLeast, kBudget});
  broker.join(2, {-1, 0, kLeast, kBudget});
  EXPECT_EQ(ask(1, 60), 60u);
  EXPECT_EQ(ask(2, 60), 40u);
  EXPECT_EQ(ask(1, ~std::uint64_t{0}), 60u);
  broker.leave(2);
  EXPECT_EQ(ask(1, 30), 90u);
}

TEST(JobBroker, WhoHasNoPlaceIsRefused) {
  Job job;
  for (JobBroker::Id id = 1; id <= 22; ++id) job.start(id);
  ASSERT_EQ(job.refused, (std::vector<JobBroker::Id>{22}));
  EXPECT_EQ(job.granted(21), kLeast);
}

TEST(JobBroker, WhoDoesNotAnswerIsPassedOver) {
  Job job;
  job.start(1, 0, 2);
  job.start(2, 1, 2);
  job.join(3);
  job.broker.need(3);
  const auto orders = job.broker.take_orders();
  ASSERT_EQ(orders.size(), 1u);
  const JobBroker::Id silent = orders[0].id;
  for (std::uint32_t i = 0; i <= JobBroker::kPatienceTicks; ++i) {
    job.broker.tick();
    for (const auto& order : job.broker.take_orders()) {
      if (order.id == silent) continue;
      job.broker.report(order.id, {order.serial, order.bytes, 0, kLeast, 0, false});
    }
  }
  EXPECT_EQ(job.granted(3), kLeast);
  EXPECT_TRUE(job.refused.empty());
}

TEST(JobBroker, WhoCannotGiveKeepsWhatItHas) {
  Job job;
  const JobBroker::Order told = job.ask_one_for_two();
  job.broker.report(1, {told.serial, kBudget - kMib, 0, kLeast, 0, true});
  job.broker.validate();
  EXPECT_EQ(job.granted(1), kBudget - kMib);
  for (std::uint32_t i = 0; i <= JobBroker::kWaitTicks; ++i) {
    job.broker.tick();
    for (const auto& order : job.broker.take_orders()) {
      if (order.refused) job.refused.push_back(order.id);
      if (!order.refused && order.id == 1) {
        job.broker.report(1, {order.serial, kBudget - kMib, 0, kLeast, 0, true});
      }
      job.broker.validate();
    }
  }
  EXPECT_EQ(job.refused, (std::vector<JobBroker::Id>{2}));
}

TEST(JobBroker, ALargerBudgetIsThereAtOnce) {
  Job job;
  job.start(1);
  job.broker.set_budget(2 * kBudget);
  job.tick();
  EXPECT_EQ(job.granted(1), kBudget);  // it can use no more
  job.start(2);
  EXPECT_EQ(job.granted(2), kLeast);
  EXPECT_EQ(job.granted(1), kBudget);
}

TEST(JobBroker, ASmallerBudgetTakesFirstWhatNobodyUses) {
  Job job;
  job.start(1, 0, 2);
  job.start(2, 1, 2);
  job.tell(1, 500, kBudget / 2);
  job.tell(2, 0, kBudget / 2 - 50 * kMib);
  job.broker.tick();
  job.broker.set_budget(kBudget - 40 * kMib);
  EXPECT_EQ(job.granted(1), kBudget / 2);
  EXPECT_EQ(job.granted(2), kBudget / 2 - 40 * kMib);
  job.broker.set_budget(kBudget - 100 * kMib);
  EXPECT_GT(job.granted(1), kBudget / 2 - 30 * kMib);
  EXPECT_GT(job.granted(2), kBudget / 2 - 80 * kMib);
  job.settle();
  EXPECT_EQ(job.broker.committed_bytes(), kBudget - 100 * kMib);
}

TEST(JobBroker, WhatAllUseIsGivenBackByAllAlike) {
  Job job;
  job.start(1, 0, 2);
  job.start(2, 1, 2);
  job.tell(1, 20, kBudget / 2);
  job.tell(2, 0, kBudget / 2);
  job.broker.tick();
  job.broker.set_budget(kBudget / 2);
  job.settle();
  EXPECT_EQ(job.granted(1), kBudget / 4);
  EXPECT_EQ(job.granted(2), kBudget / 4);
}

TEST(JobBroker, UntilASmallerBudgetIsReachedNobodyGetsMore) {
  Job job;
  job.start(1);
  job.broker.set_budget(kBudget / 2);
  const auto orders = job.broker.take_orders();
  ASSERT_EQ(orders.size(), 1u);
  EXPECT_EQ(orders[0].bytes, kBudget / 2);
  job.join(2);
  job.broker.need(2);
  job.broker.report(1, {orders[0].serial, kBudget / 2 + kMib, kBudget, kLeast, 0, false});
  job.broker.validate();
  EXPECT_EQ(job.broker.committed_bytes(), kBudget / 2 + kMib);
  EXPECT_EQ(job.granted(2), 0u);
  job.broker.report(1, {orders[0].serial, kBudget / 2, kBudget / 2, kLeast, 0, false});
  job.settle();
  EXPECT_EQ(job.granted(2), kLeast);
  EXPECT_EQ(job.broker.committed_bytes(), kBudget / 2);
}

TEST(JobBroker, WhatIsGivenUpCountsAlthoughMoreHasBeenAskedForSince) {
  Job job;
  job.start(1);
  job.broker.set_budget(300 * kMib);
  const auto first = job.broker.take_orders();
  job.broker.set_budget(200 * kMib);
  job.broker.report(1, {first.at(0).serial, 350 * kMib, kBudget, kLeast, 0, false});
  EXPECT_EQ(job.broker.committed_bytes(), 350 * kMib);
  EXPECT_EQ(job.granted(1), 200 * kMib);
}

TEST(JobBroker, ABudgetBelowTheLeastLeavesTheLeast) {
  Job job;
  job.start(1);
  job.start(2);
  job.broker.set_budget(kMib);
  job.settle();
  EXPECT_EQ(job.broker.committed_bytes(), 2 * kLeast);
  EXPECT_EQ(job.broker.least_bytes(), 2 * kLeast);
}

}  // namespace
}  // namespace ebb
