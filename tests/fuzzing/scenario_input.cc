// libFuzzer: any bytes as a scenario. Refused with an Error, or the same again once it has been written.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "ebb/status.h"
#include "sim/scenario.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  ebb::Scenario scenario;
  try {
    scenario = ebb::Scenario::parse(text, "input");
  } catch (const ebb::Error&) {
    return 0;
  }
  const ebb::Scenario again = ebb::Scenario::parse(scenario.to_json(), "input");
  if (again.operations != scenario.operations || again.to_json() != scenario.to_json()) std::abort();
  return 0;
}
