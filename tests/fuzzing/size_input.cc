// libFuzzer: any bytes as a size. Refused with an Error, or a number of bytes that is written so that it is read again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "ebb/status.h"
#include "ebb/units.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  std::uint64_t bytes = 0;
  try {
    bytes = ebb::parse_size(text);
  } catch (const ebb::Error&) {
    return 0;
  }
  if (ebb::parse_size(std::to_string(bytes)) != bytes) std::abort();
  static_cast<void>(ebb::format_size(bytes));
  return 0;
}
