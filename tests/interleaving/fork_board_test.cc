// ForkBoard in every order of steps of a parent that writes and a child that reads.
#include "runtime/fork/fork_board.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <memory>

#include "base/check.h"
#include "interleaving/expectations.h"

namespace ebb::interleaving {
namespace {

struct Board {
  Board() {
    EBB_CHECK(::pipe(pipe.data()) == 0);
    board->owe(FrameIndex(0));
  }
  ~Board() {
    ::close(pipe[0]);
    ::close(pipe[1]);
  }
  std::unique_ptr<ForkBoard> board = ForkBoard::make(1);
  std::array<int, 2> pipe{};
};

Scenario read_while_written(bool lost) {
  auto board = std::make_shared<Board>();
  return {{[=] {
             Digest digest;
             digest.low = 7;
             if (lost) {
               board->board->lose(FrameIndex(0));
             } else {
               board->board->write(FrameIndex(0), ExtentIndex(5), digest);
             }
           },
           [=] {
             ExtentIndex extent;
             Digest digest;
             const Status status = board->board->read(FrameIndex(0), board->pipe[1], extent, digest);
             require((status == Status::kOk) == !lost, "what was written is read");
             require(lost || (extent == ExtentIndex(5) && digest.low == 7), "all of it");
           }},
          {}};
}

TEST(ForkBoardOrders, WhatIsReadIsWhole) {
  expect_right([] { return read_while_written(false); });
  expect_right([] { return read_while_written(true); });
  EXPECT_EQ(failures(weaken_each([] { return read_while_written(false); })), 2u);  // the store and the load
}

}  // namespace
}  // namespace ebb::interleaving
