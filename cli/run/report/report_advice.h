// What a run could have had for more memory or a faster drive, in words: from the planner where there is a recording of
// one iteration, and from the accounts of the run otherwise. Pure but for the time that simulating takes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/whatif_report.h"
#include "run/summary.h"

namespace ebb::cli {

struct Prediction {
  std::vector<WhatIfRow> rows;  // as it was run comes first; none: `note` says why
  std::string note;
};

// `recording`: a trace of one iteration, as `ebb run --record` writes it; there may be none.
Prediction predict(const RunAccount& account, const std::string& recording);

std::vector<std::string> advice(const RunAccount& account, const Prediction& prediction);

}  // namespace ebb::cli
