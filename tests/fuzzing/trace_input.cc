// libFuzzer: any bytes as a trace. Refused with an Error that names the file, or a trace that keeps check().
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>

#include "ebb/status.h"
#include "trace/import.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::istringstream stream(std::string(reinterpret_cast<const char*>(data), size));
  try {
    const ebb::Import import = ebb::import_trace(stream, "input");
    if (!ebb::check(import.trace).empty()) std::abort();
  } catch (const ebb::Error& error) {
    if (std::string(error.what()).rfind("input:", 0) != 0) std::abort();
  }
  return 0;
}
