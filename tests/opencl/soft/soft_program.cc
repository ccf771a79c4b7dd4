// See soft_program.h.
#include "soft_program.h"

#include <dlfcn.h>

#include <regex>
#include <sstream>

#include "host_compiler.h"

namespace ebb::opencl_test {
namespace {

// "__global const float4* x": where it lies, and its type as clGetKernelArgInfo() has it.
SoftParameter parameter_of(const std::string& text) {
  static const std::regex space(R"(\b(__global|EBB_GLOBAL|__constant|__local)\b)");
  static const std::regex no_type(R"(\b(__global|EBB_GLOBAL|__constant|__local|const|restrict)\b|\s+|\w+\s*$)");
  SoftParameter parameter;
  std::smatch found;
  if (std::regex_search(text, found, space)) {
    parameter.space = found[1] == "__local"      ? CL_KERNEL_ARG_ADDRESS_LOCAL
                      : found[1] == "__constant" ? CL_KERNEL_ARG_ADDRESS_CONSTANT
                                                 : CL_KERNEL_ARG_ADDRESS_GLOBAL;
  }
  parameter.type = std::regex_replace(text, no_type, "");
  return parameter;
}

std::vector<SoftFunction> functions_of(const std::string& source) {
  static const std::regex kernel(R"((?:__kernel|EBB_KERNEL)\s+void\s+(\w+)\s*\(([^)]*)\))");
  std::vector<SoftFunction> functions;
  for (std::sregex_iterator found(source.begin(), source.end(), kernel), end; found != end; ++found) {
    SoftFunction function;
    function.name = (*found)[1];
    std::istringstream parameters((*found)[2]);
    for (std::string text; std::getline(parameters, text, ',');) function.parameters.push_back(parameter_of(text));
    functions.push_back(std::move(function));
  }
  return functions;
}

}  // namespace

bool SoftProgram::build(const std::string& options) {
  static const std::string prelude = test::read_file(EBB_SOFT_MATH) + test::read_file(EBB_SOFT_PRELUDE);
  static const test::HostCompiler compiler{EBB_SOFT_CXX, EBB_SOFT_FOLDER};
  functions = functions_of(source);
  std::string text = prelude + source + "\n";
  for (const SoftFunction& function : functions) text += "EBB_SOFT_KERNEL(" + function.name + ")\n";
  std::vector<std::string> defines;
  std::istringstream words(options);
  for (std::string word; words >> word;) {
    if (word.rfind("-D", 0) == 0) defines.push_back(word);
  }
  const std::string path = compiler.compile(text, defines, log);
  if (path.empty()) return false;
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);  // never closed: a launch may be under way
  if (library == nullptr) {
    log = ::dlerror();
    return false;
  }
  for (SoftFunction& function : functions) {
    function.run = reinterpret_cast<SoftFunction::Run>(::dlsym(library, ("soft_run_" + function.name).c_str()));
    auto* const sizes =
        reinterpret_cast<const std::size_t* (*)()>(::dlsym(library, ("soft_sizes_" + function.name).c_str()));
    for (std::size_t i = 0; i < function.parameters.size(); ++i) function.parameters[i].bytes = sizes()[i];
  }
  return true;
}

const SoftFunction* SoftProgram::find(const std::string& name) const {
  for (const SoftFunction& function : functions) {
    if (function.name == name) return &function;
  }
  return nullptr;
}

}  // namespace ebb::opencl_test
