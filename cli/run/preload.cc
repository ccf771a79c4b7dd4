// See preload.h.
#include "run/preload.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "python_package.h"

#if !defined(EBB_CALLS_INSTALLED) || !defined(EBB_CALLS_BUILT)
#error "define where the directory of libebb_calls.so is installed, from that of `ebb`, and where it was built"
#endif

namespace ebb::cli {

std::string calls_library() {
  std::vector<std::string> paths;
  for (const std::string& folder : from_executable(EBB_CALLS_INSTALLED)) paths.push_back(folder + "/libebb_calls.so");
  paths.emplace_back(EBB_CALLS_BUILT);
  for (const std::string& path : paths) {
    const bool nameable = path.find_first_of(" :") == std::string::npos;
    if (!path.empty() && nameable && ::access(path.c_str(), R_OK) == 0) return path;
  }
  return {};
}

std::string host_library(const std::string& calls) {
  const char* const map_files = std::getenv("EBB_MAP_FILES");
  const std::string path = (std::filesystem::path(calls).parent_path() / "libebb_host.so").string();
  const bool wanted = map_files == nullptr || std::string_view(map_files) != "0";
  return wanted && ::access(path.c_str(), R_OK) == 0 ? path : std::string();
}

std::string preload_with(const std::string& library) {
  const char* const theirs = std::getenv("LD_PRELOAD");
  if (theirs == nullptr || *theirs == '\0') return library;
  const std::string all(theirs);
  return all.find(library) == std::string::npos ? all + ":" + library : all;  // `ebb run` in `ebb run`
}

}  // namespace ebb::cli
