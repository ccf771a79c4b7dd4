// What tests expect of explorations.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "interleaving/explorer/explorer.h"

namespace ebb::interleaving {

// In every order it is right. How many executions that took is in the test's report.
inline void expect_right(const std::function<Scenario()>& make) {
  const Findings findings = explore(make);
  EXPECT_EQ(findings.failure, "");
  EXPECT_TRUE(findings.all);
  testing::Test::RecordProperty("executions", std::to_string(findings.executions));
  testing::Test::RecordProperty("cut", std::to_string(findings.cut));
}

// In some order it fails, in these words.
inline void expect_failure(const std::function<Scenario()>& make, const std::string& words,
                           const Options& options = {}) {
  EXPECT_NE(explore(make, options).failure.find(words), std::string::npos) << words;
}

// How many of the weaker orders were found to be too weak; of operations of this kind and order, or of all.
inline std::size_t failures(const std::vector<Weakening>& weakenings) {
  std::size_t count = 0;
  for (const Weakening& weakening : weakenings) count += weakening.findings.failure.empty() ? 0 : 1;
  return count;
}

}  // namespace ebb::interleaving
