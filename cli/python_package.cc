// See python_package.h.
#include "python_package.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "ebb/status.h"

#ifndef EBB_PYTHON_DIR
#error "define EBB_PYTHON_DIR as the string literal of the directory that holds the ebbtide package"
#endif

namespace ebb::cli {
namespace {

namespace fs = std::filesystem;

std::string locate() {
  const char* chosen = std::getenv("EBB_PYTHON_DIR");
  std::error_code ignored;
  if (chosen != nullptr && *chosen != '\0') return fs::absolute(chosen, ignored).string();
  const std::string here = executable_directory();
  if (!here.empty()) {
    const fs::path installed = (fs::path(here) / "../share/ebbtide/python").lexically_normal();
    if (fs::is_directory(installed, ignored)) return installed.string();
  }
  return EBB_PYTHON_DIR;
}

}  // namespace

std::string executable_directory() {
  std::error_code failed;
  const fs::path executable = fs::read_symlink("/proc/self/exe", failed);
  return failed ? std::string() : executable.parent_path().string();
}

std::string python_directory() {
  const std::string directory = locate();
  if (::access((directory + "/ebbtide/hook/sitecustomize.py").c_str(), R_OK) != 0) {
    throw Error(Status::kInvalid,
                fmt::format("Ebbtide's Python package is not in '{}'; set EBB_PYTHON_DIR to the directory that "
                            "contains ebbtide/, or reinstall",
                            directory));
  }
  if (directory.find(':') != std::string::npos) {
    throw Error(Status::kInvalid, fmt::format("Ebbtide's Python package is in '{}', but PYTHONPATH cannot name a "
                                              "directory with a colon; move it, and set EBB_PYTHON_DIR",
                                              directory));
  }
  return directory;
}

std::string python_path_with_hook(const std::string& directory) {
  std::string path = directory + "/ebbtide/hook:" + directory;
  const char* theirs = std::getenv("PYTHONPATH");
  // An empty element would stand for the current directory, so none is made up.
  if (theirs != nullptr && *theirs != '\0') path += std::string(":") + theirs;
  return path;
}

}  // namespace ebb::cli
