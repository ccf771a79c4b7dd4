// What the page of a report shows, as JSON. Pure but for the statistics page that is read, and the planner's time.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "run/summary.h"

namespace ebb::cli {

// `stats_page`: of the process whose time over the run is shown. `recording`: of one iteration; there may be none.
nlohmann::ordered_json report_json(const RunAccount& account, const std::string& stats_page,
                                   const std::string& recording);

}  // namespace ebb::cli
