// libFuzzer: any bytes as a .npy file. Refused with an Error, or an array that is the same once written and read again.
#include <cstring>

#include "ebb/array.h"
#include "input_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using ebb::fuzzing::InputFile;
  try {
    const ebb::Array array = ebb::load_npy(InputFile(data, size).path()).contiguous();
    const InputFile copy(nullptr, 0);
    ebb::save_npy(copy.path(), array);
    const ebb::Array again = ebb::load_npy(copy.path());
    const auto bytes = static_cast<std::size_t>(array.size()) * ebb::size_of(array.dtype());
    if (again.shape() != array.shape() || again.dtype() != array.dtype()) std::abort();
    if (bytes > 0 && std::memcmp(again.data(), array.data(), bytes) != 0) std::abort();
  } catch (const ebb::Error&) {
  }
  return 0;
}
