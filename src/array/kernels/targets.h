// What every kernel file says to Highway before it includes foreach_target.h: the instruction sets to compile for.
//
// SSE2 is what everything has; AVX2 and AVX-512 are what is used. Under sanitizers EBB_ARRAY_ONE_TARGET leaves only the
// first, to keep the build short. Each file is compiled once per instruction set, and looked up at run time.
#pragma once

#ifdef EBB_ARRAY_ONE_TARGET
#define HWY_COMPILE_ONLY_STATIC
#else
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#endif

// Before a loop: no turn of it reads what another one writes. Clang finds that out as the loop runs.
#ifdef __clang__
#define EBB_INDEPENDENT
#else
#define EBB_INDEPENDENT _Pragma("GCC ivdep")
#endif
