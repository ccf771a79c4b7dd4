// What CUDA C knows of itself, for a compiler of the host: qualifiers, the place of a thread, and CUDA's mathematical
// functions, which have overloads for float. Included before every kernel that the software NVRTC compiles.
//
// The threads of a kernel run one after the other: there are no barriers and no shared memory.
#pragma once

#define __global__
#define __device__ inline
#define __forceinline__ __attribute__((always_inline))

struct SoftPlace {
  unsigned x, y, z;
};
static thread_local SoftPlace threadIdx, blockIdx, blockDim, gridDim;

static inline unsigned __float_as_uint(float x) { return __builtin_bit_cast(unsigned, x); }
static inline float __uint_as_float(unsigned x) { return __builtin_bit_cast(float, x); }

#define EBB_TEST(name)                                             \
  static inline bool name(float x) { return __builtin_##name(x); } \
  static inline bool name(double x) { return __builtin_##name(x); }
EBB_TEST(isinf)
EBB_TEST(isfinite)
EBB_TEST(signbit)

// Of each library its own: `Layout` is another type in each.
namespace {

template <typename... Parameters>
struct SoftCall;
template <typename First, typename... Rest>
struct SoftCall<First, Rest...> {
  template <typename Function, typename... Values>
  static void run(Function* function, void** parameters, Values... values) {
    SoftCall<Rest...>::run(function, parameters + 1, values..., *static_cast<First*>(*parameters));
  }
};
template <>
struct SoftCall<> {
  template <typename Function, typename... Values>
  static void run(Function* function, void**, Values... values) {
    function(values...);
  }
};

template <typename... Parameters>
struct SoftKernel {
  static constexpr unsigned sizes[] = {sizeof(Parameters)..., 0};
  static void run(void (*kernel)(Parameters...), void** parameters, const unsigned* grid, const unsigned* block) {
    gridDim = {grid[0], grid[1], grid[2]};
    blockDim = {block[0], block[1], block[2]};
    for (blockIdx.z = 0; blockIdx.z < grid[2]; ++blockIdx.z)
      for (blockIdx.y = 0; blockIdx.y < grid[1]; ++blockIdx.y)
        for (blockIdx.x = 0; blockIdx.x < grid[0]; ++blockIdx.x)
          for (threadIdx.z = 0; threadIdx.z < block[2]; ++threadIdx.z)
            for (threadIdx.y = 0; threadIdx.y < block[1]; ++threadIdx.y)
              for (threadIdx.x = 0; threadIdx.x < block[0]; ++threadIdx.x) {
                SoftCall<Parameters...>::run(kernel, parameters);
              }
  }
};
template <typename... Parameters>
SoftKernel<Parameters...> soft_kernel(void (*)(Parameters...));

}  // namespace

// Stands behind the source, once for each kernel in it.
#define EBB_SOFT_KERNEL(name)                                                                       \
  extern "C" void soft_run_##name(void** parameters, const unsigned* grid, const unsigned* block) { \
    decltype(soft_kernel(&name))::run(&name, parameters, grid, block);                              \
  }                                                                                                 \
  extern "C" const unsigned* soft_sizes_##name() { return decltype(soft_kernel(&name))::sizes; }
