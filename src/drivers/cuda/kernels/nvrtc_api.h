// The part of NVRTC, CUDA's compiler at run time, that Ebbtide uses, and its entry points, resolved at run time.
//
// Owned by a Compiler. Immutable after load(); NVRTC may be called from any thread.
#pragma once

#include <cstddef>
#include <string>

#include "ebb/status.h"

namespace ebb::cuda {

using Program = struct ProgramTag*;  // nvrtcProgram

struct Nvrtc {
  int (*create)(Program* program, const char* source, const char* name, int headers, const char* const* header_texts,
                const char* const* header_names) = nullptr;
  int (*destroy)(Program* program) = nullptr;
  int (*compile)(Program program, int options, const char* const* option_texts) = nullptr;
  int (*log_size)(Program program, std::size_t* bytes) = nullptr;
  int (*log)(Program program, char* text) = nullptr;
  int (*cubin_size)(Program program, std::size_t* bytes) = nullptr;
  int (*cubin)(Program program, char* image) = nullptr;
  int (*ptx_size)(Program program, std::size_t* bytes) = nullptr;
  int (*ptx)(Program program, char* image) = nullptr;
  int (*architecture_count)(int* count) = nullptr;
  int (*architectures)(int* numbers) = nullptr;
  const char* (*error_text)(int error) = nullptr;

  // `library` empty: the newest that the loader finds. kUnsupported with a sentence in `reason`.
  static Status load(const std::string& library, Nvrtc& api, std::string& reason);
};

}  // namespace ebb::cuda
