// CudaStream: kernels in CUDA C, products of matrices, and copies, on the memory of a DeviceRuntime. They run one after
// the other, in the order in which they were given, in a stream of its own.
//
//   auto stream = ebb::CudaStream::open(runtime);
//   auto kernel = stream->compile(R"(extern "C" __global__ void scale(float* x, float by, long long count) { … })",
//                                 "scale");
//   const ebb::Access used[] = {{x, bytes, x, 0, true}};
//   const void* const parameters[] = {&x, &by, &count};
//   stream->launch(*kernel, {blocks, 256}, parameters, used);   // announced, started, retired; nobody waits
//   stream->copy_out(host, x);                                  // waits
//
// NVRTC compiles the kernels and cuBLAS multiplies; both are found at run time (Options::nvrtc_library,
// cublas_library). **No GPU has run this yet** (docs/cuda.md).
//
// Threads: any. It keeps its runtime; a forked child must not use it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "ebb/device.h"
#include "ebb/dtype.h"

namespace ebb {

// A compiled kernel, for the stream that compiled it, as long as that lives.
class CudaKernel {
 public:
  virtual ~CudaKernel() = default;
};

struct CudaGrid {
  std::uint32_t blocks = 1;
  std::uint32_t threads = 1;  // of a block
};

// Strides are in elements; `allocation` as in Access.
struct CudaMatrix {
  const void* data = nullptr;
  std::int64_t row_stride = 0, column_stride = 1;
  const void* allocation = nullptr;
};

// c (rows × columns) = a (rows × depth) · b (depth × columns), all of one type, kF32 or kF64.
struct CudaProduct {
  DType dtype = DType::kF32;
  std::int64_t rows = 0, depth = 0, columns = 0;
  CudaMatrix a, b, c;
};

class CudaStream {
 public:
  // Throws Error(kUnsupported) with the remedy where NVRTC is not to be found, kIoError where the GPU gives no stream.
  static std::shared_ptr<CudaStream> open(std::shared_ptr<DeviceRuntime> runtime);
  virtual ~CudaStream() = default;

  virtual const std::shared_ptr<DeviceRuntime>& runtime() const = 0;
  // The CUstream.
  virtual DeviceRuntime::Stream handle() const = 0;

  // The `extern "C" __global__` function of a program in CUDA C, compiled for this GPU without fused multiply-adds, so
  // that arithmetic gives the bits of the CPU. Kept: the same text is compiled once. Throws Error(kInvalid) with what
  // the compiler said.
  virtual std::shared_ptr<CudaKernel> compile(const std::string& source, const std::string& function) = 0;
  // Starts a kernel, and returns. `parameters` point to the value of each parameter, as for cuLaunchKernel; `accesses`
  // are all that it touches. Throws what DeviceRuntime::announce_on() throws, and kIoError.
  virtual void launch(const CudaKernel& kernel, CudaGrid grid, std::span<const void* const> parameters,
                      std::span<const Access> accesses) = 0;
  // The same by cuBLAS, in as many launches as fit into device memory. False, and nothing has happened: there is no
  // cuBLAS, it cannot read such strides, or not even one row fits.
  virtual bool multiply(const CudaProduct& product) = 0;
  // Whether so many launches with such accesses fit into what launches may use at once.
  virtual bool fits(std::span<const Access> accesses, std::size_t launches) const = 0;

  // Between host memory of any kind, which has been read or written on return, and managed memory.
  virtual void copy_in(void* to, std::span<const std::byte> from) = 0;
  virtual void copy_out(std::span<std::byte> to, const void* from) = 0;
  // Waits for all that was given. Throws Error(kIoError) when the GPU is lost, or a kernel hangs.
  virtual void synchronize() = 0;
};

}  // namespace ebb
