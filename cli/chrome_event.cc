// See chrome_event.h.
#include "chrome_event.h"

#include <utility>

namespace ebb::cli {
namespace {

constexpr int kProcess = 1;

}  // namespace

double microseconds(std::uint64_t ns) { return static_cast<double>(ns) / 1e3; }

nlohmann::ordered_json chrome_name(const char* what, int thread, const std::string& name) {
  return {{"ph", "M"}, {"name", what}, {"pid", kProcess}, {"tid", thread}, {"args", {{"name", name}}}};
}

nlohmann::ordered_json chrome_slice(const std::string& name, int thread, double ts, double duration) {
  return {{"ph", "X"}, {"name", name}, {"ts", ts}, {"dur", duration}, {"pid", kProcess}, {"tid", thread}};
}

nlohmann::ordered_json chrome_counter(const char* name, double ts, nlohmann::ordered_json values) {
  return {{"ph", "C"}, {"name", name}, {"ts", ts}, {"pid", kProcess}, {"args", std::move(values)}};
}

}  // namespace ebb::cli
