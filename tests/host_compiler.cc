// See host_compiler.h.
#include "host_compiler.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <sstream>

namespace ebb::test {
namespace {

std::uint64_t hash_of(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325ull;  // FNV-1a
  for (const char byte : text) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3ull;
  return hash;
}

bool exists(const std::string& path) {
  struct stat found {};
  return ::stat(path.c_str(), &found) == 0;
}

// Runs the compiler; its messages go to `log`.
bool run(const std::vector<std::string>& command, const std::string& log) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 2, log.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
  pid_t child = 0;
  const int failed = ::posix_spawn(&child, arguments[0], &files, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  if (failed != 0) return false;
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string HostCompiler::compile(const std::string& text, const std::vector<std::string>& options,
                                  std::string& log) const {
  std::string all = text;
  for (const std::string& option : options) all += "\n// " + option;
  ::mkdir(folder.c_str(), 0755);
  char name[32];
  std::snprintf(name, sizeof name, "/%016llx", static_cast<unsigned long long>(hash_of(all)));
  const std::string base = folder + name;
  const std::string library = base + ".so";
  if (exists(library)) return library;
  // Of this call alone: threads and processes may compile the same at once.
  std::string mine = base + ".XXXXXX";
  if (::mkdtemp(mine.data()) == nullptr) return "";
  std::ofstream(mine + "/kernel.cc") << all << "\n";
  std::vector<std::string> command = {
      compiler, "-std=c++17",       "-O1", "-w", "-ffp-contract=off", "-fPIC", "-shared", mine + "/kernel.cc",
      "-o",     mine + "/kernel.so"};
  command.insert(command.end(), options.begin(), options.end());
  const bool made = run(command, mine + "/log");
  log = read_file(mine + "/log");
  if (made) ::rename((mine + "/kernel.so").c_str(), library.c_str());
  for (const char* const end : {"/kernel.cc", "/kernel.so", "/log"}) ::unlink((mine + end).c_str());
  ::rmdir(mine.c_str());
  return made ? library : "";
}

}  // namespace ebb::test
