// Whether a Python on this machine can be managed: it starts, has torch, and loads Ebbtide's extension. Found out by
// really doing so in that Python, with the path that `ebb run` gives it; the start-up hook on it has nothing to claim.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>

#include "doctor/check.h"
#include "drivers/linux/system/system_files.h"
#include "ebb/status.h"
#include "python_package.h"

namespace ebb::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kMarker = "ebb-doctor:";
constexpr const char* kProgram = R"(
import json, sys
found = {"python": "%d.%d.%d" % sys.version_info[:3], "torch": None, "torch_error": None, "extension_error": None}
try:
    import torch
    found["torch"] = str(torch.__version__)
except BaseException as error:
    found["torch_error"] = "%s: %s" % (type(error).__name__, error)
try:
    import ebbtide.torch
except BaseException as error:
    found["extension_error"] = "%s: %s" % (type(error).__name__, error)
print("ebb-doctor:" + json.dumps(found))
)";

std::string on_path(const char* program) {
  const char* path = std::getenv("PATH");
  for (const std::string& directory : split(path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin", ':')) {
    const std::string candidate = (directory.empty() ? "." : directory) + "/" + program;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return "";
}

// A Python in the same bin/ as this executable, or in a .venv of a directory above it.
std::string neighbour() {
  fs::path directory = executable_directory();
  if (directory.empty()) return "";
  std::error_code ignored;
  if (fs::exists(directory / "python3", ignored) && fs::exists(directory / "../pyvenv.cfg", ignored)) {
    return (directory / "python3").string();
  }
  for (; directory != directory.parent_path(); directory = directory.parent_path()) {
    const fs::path candidate = directory / ".venv/bin/python3";
    if (::access(candidate.c_str(), X_OK) == 0) return candidate.string();
  }
  return "";
}

// stdout of `interpreter -c kProgram`. The caller's process is bounded, so this may wait for ever.
std::string run_interpreter(const std::string& interpreter, const std::string& directory) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw Error(Status::kIoError, std::strerror(errno));
  const FileDescriptor reader(ends[0]);
  FileDescriptor writer(ends[1]);
  const pid_t child = ::fork();
  if (child == 0) {
    const int nowhere = ::open("/dev/null", O_RDWR);
    ::dup2(nowhere, STDIN_FILENO);
    ::dup2(nowhere, STDERR_FILENO);
    ::dup2(ends[1], STDOUT_FILENO);
    ::setenv("PYTHONPATH", python_path_with_hook(directory).c_str(), 1);
    ::unsetenv("EBB_CLAIM");
    ::execl(interpreter.c_str(), interpreter.c_str(), "-c", kProgram, static_cast<char*>(nullptr));
    ::_exit(127);
  }
  writer.reset();
  std::string text;
  std::array<char, 4096> piece;
  ssize_t count = 0;
  while ((count = ::read(reader.get(), piece.data(), piece.size())) > 0 || (count < 0 && errno == EINTR)) {
    if (count > 0) text.append(piece.data(), static_cast<std::size_t>(count));
  }
  ::waitpid(child, nullptr, 0);
  return text;
}

std::optional<Json> answer_in(const std::string& text) {
  const std::size_t at = text.rfind(kMarker);
  if (at == std::string::npos) return std::nullopt;
  const std::string line = text.substr(at + std::strlen(kMarker));
  const Json json = Json::parse(line.substr(0, line.find('\n')), nullptr, false);
  if (!json.is_object()) return std::nullopt;
  return json;
}

}  // namespace

std::vector<std::string> candidate_interpreters() {
  const char* chosen = std::getenv("EBB_PYTHON");
  if (chosen != nullptr && *chosen != '\0') {
    const std::string text = chosen;
    const std::string found = text.find('/') == std::string::npos ? on_path(chosen) : "";
    return {found.empty() ? text : found};
  }
  std::vector<std::string> interpreters;
  for (const std::string& candidate : {on_path("python3"), neighbour()}) {
    const bool known = std::find(interpreters.begin(), interpreters.end(), candidate) != interpreters.end();
    if (!candidate.empty() && !known) interpreters.push_back(candidate);
  }
  return interpreters;
}

Check check_interpreter(const std::string& interpreter) {
  Check check{"python", "Python", Verdict::kBlocking, "", "", {}};
  check.details["interpreter"] = interpreter;
  std::string directory;
  try {
    directory = python_directory();
  } catch (const Error& error) {
    check.found = error.what();
    check.remedy = "as it says";
    return check;
  }
  const auto answer = answer_in(run_interpreter(interpreter, directory));
  if (!answer) {
    check.found = fmt::format("{} does not run", interpreter);
    check.remedy = "name a working one in EBB_PYTHON";
    return check;
  }
  check.details.update(*answer);
  const std::string python = fmt::format("{} ({})", interpreter, (*answer)["python"].get<std::string>());
  if (!(*answer)["torch_error"].is_null()) {
    check.found = fmt::format("{} has no torch: {}", python, (*answer)["torch_error"].get<std::string>());
    check.remedy = fmt::format("{} -m pip install torch, or name another Python in EBB_PYTHON", interpreter);
  } else if (!(*answer)["extension_error"].is_null()) {
    check.found = fmt::format("{} with torch {} cannot load Ebbtide: {}", python, (*answer)["torch"].get<std::string>(),
                              (*answer)["extension_error"].get<std::string>());
    check.remedy = fmt::format(
        "in Ebbtide's source folder: {} -m pip install . (docs/install.md); use the ebb that it "
        "installs",
        interpreter);
  } else {
    check.verdict = Verdict::kGood;
    check.found =
        fmt::format("{} with torch {} and Ebbtide's extension", python, (*answer)["torch"].get<std::string>());
  }
  return check;
}

}  // namespace ebb::cli
