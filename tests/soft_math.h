// The mathematical functions that OpenCL C and CUDA C have alike, with overloads for float, for a compiler of the host.
// The software OpenCL and the software NVRTC put it, and then their own prelude, before every program.
#pragma once

#define EBB_UNARY(name)                                                \
  static inline float name(float x) { return __builtin_##name##f(x); } \
  static inline double name(double x) { return __builtin_##name(x); }
#define EBB_BINARY(name)                                                           \
  static inline float name(float x, float y) { return __builtin_##name##f(x, y); } \
  static inline double name(double x, double y) { return __builtin_##name(x, y); }
#define EBB_ALL_UNARY(each)                                                                                         \
  each(fabs) each(sqrt) each(exp) each(exp2) each(expm1) each(log) each(log2) each(log10) each(log1p) each(sin)     \
      each(cos) each(tan) each(asin) each(acos) each(atan) each(sinh) each(cosh) each(tanh) each(asinh) each(acosh) \
          each(atanh) each(erf) each(floor) each(ceil) each(trunc) each(rint)
#define EBB_ALL_BINARY(each) each(fmod) each(pow) each(atan2) each(hypot) each(copysign) each(nextafter)
EBB_ALL_UNARY(EBB_UNARY)
EBB_ALL_BINARY(EBB_BINARY)
