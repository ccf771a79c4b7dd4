// See pressure_plot.h.
#include "plan/pressure_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "ebb/units.h"
#include "text.h"

namespace ebb::cli {
namespace {

constexpr int kRows = 10;
constexpr int kLabelColumns = 11;
constexpr int kColumnsMin = 30;
constexpr int kColumnsMax = 200;
constexpr const char* kOver = "\x1b[31m";
constexpr const char* kUnder = "\x1b[36m";
constexpr const char* kPlain = "\x1b[0m";

// The most that is live in each of `count` equal pieces of the iteration's time; of its launches, if times are unknown.
std::vector<std::uint64_t> pieces(const Vitality& vitality, std::size_t count) {
  const std::size_t launches = vitality.live_bytes.size();
  const std::uint64_t total_ns = vitality.ideal_ns();
  const auto piece_at = [&](std::size_t launch) {
    const double share = total_ns > 0 ? static_cast<double>(vitality.start_ns[launch]) / static_cast<double>(total_ns)
                                      : static_cast<double>(launch) / static_cast<double>(launches);
    return std::min(count - 1, static_cast<std::size_t>(share * static_cast<double>(count)));
  };
  std::vector<std::uint64_t> most(count, 0);
  for (std::size_t k = 0; k < launches; ++k) {
    const std::size_t last = std::max(piece_at(k), k + 1 < launches ? piece_at(k + 1) : count - 1);
    for (std::size_t piece = piece_at(k); piece <= last; ++piece) {
      most[piece] = std::max(most[piece], vitality.live_bytes[k]);
    }
  }
  return most;
}

std::uint64_t top_of(const Vitality& vitality, std::uint64_t budget_bytes) {
  return std::max<std::uint64_t>({vitality.peak_live_bytes, budget_bytes, 1});
}

// One row of bars: `low` is the value at its lower edge, `step` its height.
std::string bars(const std::vector<std::uint64_t>& values, double low, double step, bool budget_row, bool over,
                 bool colour) {
  static constexpr std::array<const char*, 9> kEighths{" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::string row;
  for (const std::uint64_t value : values) {
    const double filled = (static_cast<double>(value) - low) / step;
    const auto eighths = static_cast<std::size_t>(std::clamp(std::lround(filled * 8), 0l, 8l));
    row += eighths == 0 && budget_row ? "╌" : over && eighths == 8 && !colour ? "▓" : kEighths[eighths];
  }
  if (colour) return (over ? kOver : kUnder) + row + kPlain;
  return row;
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '&') {
      out += "&amp;";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

std::string draw_pressure(const Vitality& vitality, const PlotOptions& options) {
  const int columns = std::clamp(options.columns, kColumnsMin, kColumnsMax) - kLabelColumns - 2;
  const auto values = pieces(vitality, static_cast<std::size_t>(columns));
  const double top = static_cast<double>(top_of(vitality, options.budget_bytes));
  const double step = top / kRows;
  // The budget's line is the lower edge of the first row above it, or the top one where nothing is above.
  const int budget_row =
      std::min(kRows - 1, static_cast<int>(std::floor(static_cast<double>(options.budget_bytes) / step + 0.5)));
  std::string out;
  for (int row = kRows - 1; row >= 0; --row) {
    const bool is_budget = row == budget_row;
    const std::string label = is_budget          ? format_size(options.budget_bytes)
                              : row == kRows - 1 ? format_size(vitality.peak_live_bytes)
                              : row == 0         ? "0"
                                                 : "";
    const bool over = row >= budget_row && vitality.peak_live_bytes > options.budget_bytes;
    out += fmt::format("{:>{}} {}{}\n", label, kLabelColumns - 1, is_budget ? "╞" : "│",
                       bars(values, row * step, step, is_budget, over, options.colour));
  }
  const std::string end = vitality.ideal_ns() > 0 ? format_seconds(static_cast<double>(vitality.ideal_ns()) / 1e9)
                                                  : fmt::format("{} launches", vitality.live_bytes.size());
  out += fmt::format("{:>{}} └", "", kLabelColumns - 1);
  for (int i = 0; i < columns; ++i) out += "─";
  return out + fmt::format("\n{:>{}}0{:>{}}\n", "", kLabelColumns + 1, end, columns - 1);
}

std::string draw_pressure_html(const Vitality& vitality, std::uint64_t budget_bytes, const std::string& title) {
  constexpr double kWidth = 1000;
  constexpr double kHeight = 300;
  const double top = 1.05 * static_cast<double>(top_of(vitality, budget_bytes));
  const auto y = [&](std::uint64_t bytes) { return kHeight * (1 - static_cast<double>(bytes) / top); };
  const auto values = pieces(vitality, 1000);
  std::string outline = fmt::format("0,{:.1f}", kHeight);
  for (std::size_t i = 0; i < values.size(); ++i) {
    outline += fmt::format(" {0},{2:.1f} {1},{2:.1f}", i, i + 1, y(values[i]));
  }
  outline += fmt::format(" {},{:.1f}", kWidth, kHeight);
  const double line = y(budget_bytes);
  const std::string end = format_seconds(static_cast<double>(vitality.ideal_ns()) / 1e9);
  return fmt::format(
      "<!doctype html>\n<meta charset=\"utf-8\">\n<title>{0}</title>\n"
      "<style>body{{font:14px system-ui,sans-serif;margin:2em;color:#222;background:#fff}}"
      "svg{{width:100%;max-width:1100px;overflow:visible}}text{{font-size:12px}}</style>\n"
      "<h1 style=\"font-size:18px\">{0}</h1>\n"
      "<p>Bytes alive over one iteration: at most {1} (launch {2}); device memory {3}.</p>\n"
      "<svg viewBox=\"0 0 {4} {5}\" role=\"img\" aria-label=\"memory pressure over time\">\n"
      "<clipPath id=\"over\"><rect x=\"0\" y=\"0\" width=\"{4}\" height=\"{6:.1f}\"/></clipPath>\n"
      "<polygon points=\"{7}\" fill=\"#5aa7b5\"/>\n"
      "<polygon points=\"{7}\" fill=\"#c8553d\" clip-path=\"url(#over)\"/>\n"
      "<line x1=\"0\" x2=\"{4}\" y1=\"{6:.1f}\" y2=\"{6:.1f}\" stroke=\"#222\" stroke-dasharray=\"6 4\"/>\n"
      "<text x=\"4\" y=\"{8:.1f}\">device memory {3}</text>\n"
      "<line x1=\"0\" x2=\"{4}\" y1=\"{5}\" y2=\"{5}\" stroke=\"#222\"/>\n"
      "<text x=\"0\" y=\"{9}\">0</text><text x=\"{4}\" y=\"{9}\" text-anchor=\"end\">{10}</text>\n</svg>\n",
      escaped(title), format_size(vitality.peak_live_bytes), vitality.peak_live_launch, format_size(budget_bytes),
      kWidth, kHeight, line, outline, line - 5, kHeight + 16, end);
}

}  // namespace ebb::cli
