// See python_package.h.
#include "python_package.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "drivers/linux/system/system_files.h"
#include "ebb/status.h"

#if !defined(EBB_PACKAGE_INSTALLED) || !defined(EBB_PACKAGE_BUILT)
#error "define where the directory with the ebbtide package is installed, from that of `ebb`, and where it was built"
#endif

namespace ebb::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kHook = "ebbtide/hook/sitecustomize.py";

std::string locate() {
  const char* chosen = std::getenv("EBB_PYTHON_DIR");
  std::error_code ignored;
  if (chosen != nullptr && *chosen != '\0') return fs::absolute(chosen, ignored).string();
  for (const std::string& installed : from_executable(EBB_PACKAGE_INSTALLED)) {
    if (::access((fs::path(installed) / kHook).c_str(), R_OK) == 0) return installed;
  }
  return EBB_PACKAGE_BUILT;
}

}  // namespace

std::string executable_directory() {
  std::error_code failed;
  const fs::path executable = fs::read_symlink("/proc/self/exe", failed);
  return failed ? std::string() : executable.parent_path().string();
}

std::vector<std::string> from_executable(std::string_view relative) {
  const fs::path here = executable_directory();
  std::vector<std::string> places;
  for (const std::string& place : split(relative, ':')) {
    if (!here.empty()) places.push_back((here / place).lexically_normal().string());
  }
  return places;
}

std::string python_directory() {
  const std::string directory = locate();
  if (::access((fs::path(directory) / kHook).c_str(), R_OK) != 0) {
    throw Error(Status::kInvalid,
                fmt::format("Ebbtide's Python package is not {}; set EBB_PYTHON_DIR to the directory "
                            "that contains ebbtide/, or reinstall",
                            directory.empty() ? "where pip puts it" : fmt::format("in '{}'", directory)));
  }
  if (directory.find(':') != std::string::npos) {
    throw Error(Status::kInvalid, fmt::format("Ebbtide's Python package is in '{}', but PYTHONPATH cannot name a "
                                              "directory with a colon; move it, and set EBB_PYTHON_DIR",
                                              directory));
  }
  return directory;
}

std::string python_path_with_hook(const std::string& directory) {
  std::string path = directory + "/ebbtide/hook";
  // The packages of a Python are on its own path. Here they would come before its standard library, and on the path of
  // any other Python.
  if (!directory.ends_with("-packages")) path += ":" + directory;
  const char* theirs = std::getenv("PYTHONPATH");
  // An empty element would stand for the current directory, so none is made up.
  if (theirs != nullptr && *theirs != '\0') path += std::string(":") + theirs;
  return path;
}

}  // namespace ebb::cli
