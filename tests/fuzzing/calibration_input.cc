// libFuzzer: any bytes as the file of what was measured of this machine. Speeds above nothing, or none.
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "cli/calibrate/calibration_file.h"

namespace {

// With the file in it; gone when the fuzzer ends.
class Cache {
 public:
  Cache() {
    std::string made = (std::filesystem::temp_directory_path() / "ebb-calibration-XXXXXX").string();
    if (::mkdtemp(made.data()) == nullptr) std::abort();
    directory_ = made;
    std::filesystem::create_directory(directory_ / "ebbtide");
    ::setenv("XDG_CACHE_HOME", directory_.c_str(), 1);
  }
  ~Cache() { std::filesystem::remove_all(directory_); }

 private:
  std::filesystem::path directory_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Cache cache;
  std::ofstream(ebb::cli::calibration_path(), std::ios::binary)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  if (const auto speeds = ebb::cli::known_flash("/")) {
    const bool good = speeds->disk.read > 0 && speeds->disk.write > 0 && speeds->busy.read > 0 &&
                      speeds->busy.write > 0 && speeds->checksum > 0;
    if (!good) std::abort();
    static_cast<void>(to_json(*speeds).dump());
  }
  return 0;
}
