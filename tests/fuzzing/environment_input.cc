// libFuzzer: any bytes as values of EBB_* variables, one a line, in the order below. Refused with an Error that begins
// with the name of one, or options.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "ebb/options.h"
#include "ebb/status.h"

namespace {

constexpr std::array kNames{"EBB_MEMORY",        "EBB_MEMORY_MAX", "EBB_BLOCK",         "EBB_MANAGED_MIN",
                            "EBB_FLASH",         "EBB_RANK",       "EBB_POLICY",        "EBB_RECORD_ITERATIONS",
                            "EBB_DEVICE_MEMORY", "EBB_DEVICE",     "EBB_MEMORY_DRIVER", "EBB_VERIFY",
                            "EBB_ENCRYPT",       "EBB_MAP_FILES"};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  std::size_t begin = 0;
  for (const char* name : kNames) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    ::setenv(name, text.substr(begin, end - begin).c_str(), 1);
    begin = std::min(end + 1, text.size());
  }
  try {
    static_cast<void>(ebb::options_from_environment());
  } catch (const ebb::Error& error) {
    if (std::string(error.what()).rfind("EBB_", 0) != 0) std::abort();
  }
  return 0;
}
