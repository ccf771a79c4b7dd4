// OpInfo: what is known of an elementwise operator without running it: its name, operands and types.
//
// Constants; any thread.
#pragma once

#include <cstdint>

#include "ebb/array/types.h"

namespace ebb::array {

enum class Takes : std::uint8_t {
  kAny,      // all types
  kNumbers,  // all but bool
  kFloats,   // floats; integers and bool become f32
  kBits,     // integers and bool
  kIntegers  // integers
};

struct OpInfo {
  const char* name;
  std::uint8_t arity;
  Takes takes;
  bool gives_bool;
};

const OpInfo& info(Op op);

}  // namespace ebb::array
