// libnvrtc_soft.so: the entry points of NVRTC that Ebbtide uses, for the software CUDA driver. A program is compiled
// for the host with this machine's C++ compiler, and its "PTX" names the library that came of it.
//
// What was compiled stays in a folder of the build, by a hash of the text: tests run as many processes, and compile
// each kernel once. Threads: any; programs share nothing.
#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#define EBB_SOFT __attribute__((visibility("default")))

namespace {

constexpr int kInvalidInput = 3;
constexpr int kCompilationFailed = 6;

struct Program {
  std::string source, log, image;
};

std::string read(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

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

bool compile(Program& program) {
  static const std::string prelude = read(EBB_SOFT_PRELUDE);
  std::string text = prelude + program.source + "\n";
  static const std::regex kernel(R"((?:__global__|EBB_KERNEL)\s+void\s+(\w+)\s*\()");
  for (std::sregex_iterator found(program.source.begin(), program.source.end(), kernel), end; found != end; ++found) {
    text += "EBB_SOFT_KERNEL(" + (*found)[1].str() + ")\n";
  }
  ::mkdir(EBB_SOFT_FOLDER, 0755);
  char name[32];
  std::snprintf(name, sizeof name, "/%016llx", static_cast<unsigned long long>(hash_of(text)));
  const std::string base = std::string(EBB_SOFT_FOLDER) + name;
  const std::string library = base + ".so";
  program.image = "software image " + library;
  if (exists(library)) return true;
  const std::string mine = base + "." + std::to_string(::getpid());
  std::ofstream(mine + ".cc") << text;
  const bool made = run({EBB_SOFT_CXX, "-std=c++17", "-O1", "-w", "-ffp-contract=off", "-fPIC", "-shared", mine + ".cc",
                         "-o", mine + ".so"},
                        mine + ".log");
  program.log = read(mine + ".log");
  if (made) ::rename((mine + ".so").c_str(), library.c_str());
  for (const char* const end : {".cc", ".log"}) ::unlink((mine + end).c_str());
  return made;
}

int give(const std::string& text, char* to) {
  std::memcpy(to, text.c_str(), text.size() + 1);
  return 0;
}

}  // namespace

extern "C" {

EBB_SOFT int nvrtcCreateProgram(Program** program, const char* source, const char*, int headers, const char* const*,
                                const char* const*) {
  if (source == nullptr || headers != 0) return kInvalidInput;
  *program = new Program{source, "", ""};
  return 0;
}

EBB_SOFT int nvrtcDestroyProgram(Program** program) {
  delete *program;
  *program = nullptr;
  return 0;
}

EBB_SOFT int nvrtcCompileProgram(Program* program, int count, const char* const* options) {
  for (int i = 0; i < count; ++i) {
    const std::string option = options[i];
    if (option != "--fmad=false" && option.rfind("--gpu-architecture=", 0) != 0) return kInvalidInput;
  }
  return compile(*program) ? 0 : kCompilationFailed;
}

EBB_SOFT int nvrtcGetProgramLogSize(Program* program, std::size_t* bytes) {
  *bytes = program->log.size() + 1;
  return 0;
}
EBB_SOFT int nvrtcGetProgramLog(Program* program, char* text) { return give(program->log, text); }

// As machine code and as PTX: the driver takes both alike.
EBB_SOFT int nvrtcGetCUBINSize(Program* program, std::size_t* bytes) {
  *bytes = program->image.size() + 1;
  return 0;
}
EBB_SOFT int nvrtcGetCUBIN(Program* program, char* image) { return give(program->image, image); }
EBB_SOFT int nvrtcGetPTXSize(Program* program, std::size_t* bytes) { return nvrtcGetCUBINSize(program, bytes); }
EBB_SOFT int nvrtcGetPTX(Program* program, char* image) { return nvrtcGetCUBIN(program, image); }

EBB_SOFT int nvrtcGetNumSupportedArchs(int* count) {
  *count = 2;
  return 0;
}
EBB_SOFT int nvrtcGetSupportedArchs(int* numbers) {
  numbers[0] = 80;
  numbers[1] = 90;
  return 0;
}

EBB_SOFT const char* nvrtcGetErrorString(int error) {
  return error == kCompilationFailed ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR_INVALID_INPUT";
}

}  // extern "C"
