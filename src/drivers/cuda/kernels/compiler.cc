// See compiler.h.
#include "drivers/cuda/kernels/compiler.h"

#include <algorithm>
#include <vector>

namespace ebb::cuda {
namespace {

// A program, as long as it is compiled.
class OneProgram {
 public:
  OneProgram(const Nvrtc& api, const std::string& source) : api_(api) {
    if (const int error = api.create(&program_, source.c_str(), "ebb.cu", 0, nullptr, nullptr); error != 0) {
      throw Error(Status::kInvalid, std::string("NVRTC takes no program: ") + api.error_text(error));
    }
  }
  OneProgram(const OneProgram&) = delete;
  OneProgram& operator=(const OneProgram&) = delete;
  ~OneProgram() { static_cast<void>(api_.destroy(&program_)); }
  Program get() const { return program_; }

  std::string text_of(int (*size)(Program, std::size_t*), int (*text)(Program, char*)) const {
    std::size_t bytes = 0;
    if (size(program_, &bytes) != 0) return {};
    std::string result(bytes, '\0');
    return text(program_, result.data()) == 0 ? result : std::string();
  }

 private:
  const Nvrtc& api_;
  Program program_ = nullptr;
};

}  // namespace

Status Compiler::make(const std::string& library, int capability, Compiler& compiler, std::string& reason) {
  if (const Status status = Nvrtc::load(library, compiler.api_, reason); status != Status::kOk) return status;
  int count = 0;
  std::vector<int> known;
  if (compiler.api_.architecture_count(&count) == 0 && count > 0) {
    known.resize(static_cast<std::size_t>(count));
    if (compiler.api_.architectures(known.data()) != 0) known.clear();
  }
  std::erase_if(known, [&](int one) { return one > capability; });
  if (known.empty()) {
    reason = "NVRTC knows no GPU of compute capability " + std::to_string(capability / 10) + "." +
             std::to_string(capability % 10) + ": name a library that does with EBB_NVRTC_LIBRARY";
    return Status::kUnsupported;
  }
  const int best = *std::max_element(known.begin(), known.end());
  compiler.machine_code_ = best == capability;
  compiler.architecture_ =
      "--gpu-architecture=" + std::string(compiler.machine_code_ ? "sm_" : "compute_") + std::to_string(best);
  return Status::kOk;
}

std::string Compiler::compile(const std::string& source) const {
  const OneProgram program(api_, source);
  // As the CPU computes: no multiply-add that the source does not have. (Division and square root are correctly
  // rounded, and denormals kept, unless NVRTC is told otherwise.)
  const char* const options[] = {architecture_.c_str(), "--fmad=false"};
  if (api_.compile(program.get(), 2, options) != 0) {
    throw Error(Status::kInvalid, "a kernel does not compile: " + program.text_of(api_.log_size, api_.log));
  }
  std::string image =
      machine_code_ ? program.text_of(api_.cubin_size, api_.cubin) : program.text_of(api_.ptx_size, api_.ptx);
  if (image.empty()) throw Error(Status::kInvalid, "NVRTC gives no image of what it has compiled");
  return image;
}

}  // namespace ebb::cuda
