// libnvrtc_soft.so: the entry points of NVRTC that Ebbtide uses, for the software CUDA driver. A program is compiled
// for the host with this machine's C++ compiler, and its "PTX" names the library that came of it.
//
// Threads: any; programs share nothing.
#include <cstring>
#include <regex>
#include <string>

#include "host_compiler.h"

#define EBB_SOFT __attribute__((visibility("default")))

namespace {

constexpr int kInvalidInput = 3;
constexpr int kCompilationFailed = 6;

struct Program {
  std::string source, log, image;
};

bool compile(Program& program) {
  static const std::string prelude = ebb::test::read_file(EBB_SOFT_MATH) + ebb::test::read_file(EBB_SOFT_PRELUDE);
  static const ebb::test::HostCompiler compiler{EBB_SOFT_CXX, EBB_SOFT_FOLDER};
  std::string text = prelude + program.source + "\n";
  static const std::regex kernel(R"((?:__global__|EBB_KERNEL)\s+void\s+(\w+)\s*\()");
  for (std::sregex_iterator found(program.source.begin(), program.source.end(), kernel), end; found != end; ++found) {
    text += "EBB_SOFT_KERNEL(" + (*found)[1].str() + ")\n";
  }
  const std::string library = compiler.compile(text, {}, program.log);
  program.image = "software image " + library;
  return !library.empty();
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
