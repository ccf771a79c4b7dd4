// Memory pressure over one iteration, drawn: live bytes against ideal time, with the budget as a line. Pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "plan/vitality.h"

namespace ebb::cli {

struct PlotOptions {
  std::uint64_t budget_bytes = 0;
  int columns = 80;  // of the terminal
  bool colour = false;
};

std::string draw_pressure(const Vitality& vitality, const PlotOptions& options);

// A page of its own without scripts or anything to fetch; `title` is text, not markup.
std::string draw_pressure_html(const Vitality& vitality, std::uint64_t budget_bytes, const std::string& title);

}  // namespace ebb::cli
