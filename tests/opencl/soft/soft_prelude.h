// What OpenCL C knows of itself, for a compiler of the host: qualifiers, types, the place of a work-item, and its
// mathematical functions. Included before every program that the software OpenCL compiles.
//
// The work-items of a kernel run one after the other: there are no barriers.
#pragma once

#define __kernel extern "C"
#define __global
#define __constant const
#define __local

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong, size_t;
#define EBB_VECTOR(type)                                               \
  typedef type type##2 __attribute__((vector_size(2 * sizeof(type)))); \
  typedef type type##4 __attribute__((vector_size(4 * sizeof(type))));
EBB_VECTOR(int)
EBB_VECTOR(float)
#undef EBB_VECTOR

struct SoftItem {
  unsigned long global[3], local[3], global_size[3], local_size[3];
};
static thread_local SoftItem soft_item;

static inline unsigned long get_global_id(uint d) { return soft_item.global[d]; }
static inline unsigned long get_local_id(uint d) { return soft_item.local[d]; }
static inline unsigned long get_global_size(uint d) { return soft_item.global_size[d]; }
static inline unsigned long get_local_size(uint d) { return soft_item.local_size[d]; }
static inline unsigned long get_group_id(uint d) { return soft_item.global[d] / soft_item.local_size[d]; }

static inline uint as_uint(float x) { return __builtin_bit_cast(uint, x); }
static inline float as_float(uint x) { return __builtin_bit_cast(float, x); }

#define EBB_TEST(name)                                            \
  static inline int name(float x) { return __builtin_##name(x); } \
  static inline int name(double x) { return __builtin_##name(x); }
EBB_TEST(isinf)
EBB_TEST(isnan)
EBB_TEST(isfinite)
EBB_TEST(signbit)

namespace {

template <typename... Parameters>
struct SoftCall;
template <typename First, typename... Rest>
struct SoftCall<First, Rest...> {
  template <typename Function, typename... Values>
  static void run(Function* function, void* const* arguments, Values... values) {
    SoftCall<Rest...>::run(function, arguments + 1, values..., *static_cast<First*>(*arguments));
  }
};
template <>
struct SoftCall<> {
  template <typename Function, typename... Values>
  static void run(Function* function, void* const*, Values... values) {
    function(values...);
  }
};

template <typename... Parameters>
struct SoftKernel {
  static constexpr unsigned long sizes[] = {sizeof(Parameters)..., 0};
  static void run(void (*kernel)(Parameters...), void* const* arguments, const unsigned long* items,
                  const unsigned long* group) {
    SoftItem& at = soft_item;
    for (int d = 0; d < 3; ++d) {
      at.global_size[d] = items[d];
      at.local_size[d] = group[d];
    }
    for (at.global[2] = 0; at.global[2] < items[2]; ++at.global[2])
      for (at.global[1] = 0; at.global[1] < items[1]; ++at.global[1])
        for (at.global[0] = 0; at.global[0] < items[0]; ++at.global[0]) {
          for (int d = 0; d < 3; ++d) at.local[d] = at.global[d] % group[d];
          SoftCall<Parameters...>::run(kernel, arguments);
        }
  }
};
template <typename... Parameters>
SoftKernel<Parameters...> soft_kernel(void (*)(Parameters...));

}  // namespace

// Stands behind the source, once for each kernel in it.
#define EBB_SOFT_KERNEL(name)                                                                                       \
  extern "C" void soft_run_##name(void* const* arguments, const unsigned long* items, const unsigned long* group) { \
    decltype(soft_kernel(&name))::run(&name, arguments, items, group);                                              \
  }                                                                                                                 \
  extern "C" const unsigned long* soft_sizes_##name() { return decltype(soft_kernel(&name))::sizes; }
