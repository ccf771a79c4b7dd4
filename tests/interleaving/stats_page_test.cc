// The statistics page in every order of steps of the runtime that writes it and the command line that reads it: both as
// they are, over one file, of whose words some are looked at one by one.
#include "ebb/stats_page.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "cli/run/stats_reader.h"
#include "interleaving/expectations.h"
#include "runtime/stats_file.h"

namespace {

// Where the file is mapped whose reads are looked at, and how often its sequence has been read.
const char* g_page = nullptr;
int g_looks = 0;

}  // namespace

extern "C" {

ssize_t __real_pread(int fd, void* to, std::size_t bytes, off_t offset);
// The kernel copies from the pages that the writer writes to.
ssize_t __wrap_pread(int fd, void* to, std::size_t bytes, off_t offset) {
  using namespace ebb::interleaving;
  if (!watched()) return __real_pread(fd, to, bytes, offset);
  // Who begins anew is like one who begins later.
  constexpr int kLooks = 2;
  if (offset == offsetof(ebb::StatsPage, sequence) && ++g_looks > kLooks) {
    same_as_another();
    return -1;
  }
  on_copy(to, g_page + offset, bytes, __builtin_return_address(0));
  return static_cast<ssize_t>(bytes);
}
}

namespace ebb::interleaving {
namespace {

struct Page {
  Page() {
    ::unlink(path.c_str());
    file.open(path, "policy", "description");
    g_page = reinterpret_cast<const char*>(file.timeline()) - offsetof(StatsPage, timeline);
    g_looks = 0;
    file.end_step(0);  // the first one begins
    const auto& page = *reinterpret_cast<const StatsPage*>(g_page);
    for (const void* word :
         {static_cast<const void*>(&page.sequence), static_cast<const void*>(&page.step_count),
          static_cast<const void*>(&page.stats.budget_bytes), static_cast<const void*>(&page.stats.steps)}) {
      share(word);
    }
  }
  ~Page() { ::unlink(path.c_str()); }

  const std::string path = testing::TempDir() + "ebb_orders_stats_" + std::to_string(::getpid());
  StatsFile file;
};

Scenario read_while_updated(int updates) {
  auto page = std::make_shared<Page>();
  const auto write = [=] {
    Stats stats;
    for (int i = 0; i < updates; ++i) {
      ++stats.budget_bytes;
      ++stats.steps;
      page->file.update(stats);
    }
  };
  const auto read = [=] {
    const auto reading = cli::read_stats(page->path);
    if (reading) require(reading->stats.budget_bytes == reading->stats.steps, "of one update");
  };
  return {{write, read}, {}};
}

// Of a step that is counted the time is there.
Scenario read_while_stepping() {
  auto page = std::make_shared<Page>();
  return {{[=] { page->file.end_step(0); },
           [=] {
             const auto reading = cli::read_stats(page->path);
             for (const double seconds : reading->recent_step_seconds) require(seconds > 0, "it is there");
           }},
          {}};
}

// Whether there is such an operation, and a weaker order of it fails.
bool needs(const std::vector<Weakening>& weakenings, Kind kind, std::memory_order order) {
  return std::any_of(weakenings.begin(), weakenings.end(), [&](const Weakening& weakening) {
    return weakening.site.kind == kind && weakening.site.order == order && !weakening.findings.failure.empty();
  });
}

TEST(StatsPageOrders, IsReadWholeWhileItIsWritten) {
  expect_right([] { return read_while_updated(1); });
  expect_right([] { return read_while_updated(2); });
  const auto weakenings = weaken_each([] { return read_while_updated(1); });
  EXPECT_TRUE(needs(weakenings, Kind::kFence, std::memory_order_release));  // the writer's, after it has become odd
  EXPECT_TRUE(needs(weakenings, Kind::kStore, std::memory_order_release));  // and as it becomes even
  EXPECT_TRUE(needs(weakenings, Kind::kFence, std::memory_order_acquire));  // the reader's, between its reads
}

TEST(StatsPageOrders, TimesAreThereBeforeTheyAreCounted) {
  expect_right(read_while_stepping);
  EXPECT_TRUE(needs(weaken_each(read_while_stepping), Kind::kStore, std::memory_order_release));
}

}  // namespace
}  // namespace ebb::interleaving
