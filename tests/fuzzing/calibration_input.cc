// libFuzzer: any bytes as the file of what was measured of this machine. Speeds above nothing, or none.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "cli/calibrate/calibration_file.h"
#include "cli/run/scratch_directory.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const ebb::cli::ScratchDirectory cache;
  static const bool chosen = std::filesystem::create_directory(cache.file("ebbtide")) &&
                             ::setenv("XDG_CACHE_HOME", cache.file("").c_str(), 1) == 0;
  if (!chosen) std::abort();
  std::ofstream(ebb::cli::calibration_path(), std::ios::binary)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  if (const auto speeds = ebb::cli::known_flash("/")) {
    const bool good = speeds->disk.read > 0 && speeds->disk.write > 0 && speeds->busy.read > 0 &&
                      speeds->busy.write > 0 && speeds->toll_bps >= 0;
    if (!good) std::abort();
    static_cast<void>(to_json(*speeds).dump());
  }
  return 0;
}
