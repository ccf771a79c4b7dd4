// ChangeKernels: what tells on the GPU whether a frame has changed since it was last copied to host memory, and copies
// only if so. A frame is cut into parts of 4 KiB, one a thread; a part's digest has 128 bits, as that of the CPU's
// checksums, so that no change goes unnoticed by any chance worth speaking of. The copy is written by the kernel, over
// the link, so nobody has to wait for the answer.
//
// Owned by a CudaDevice, called with its context current. Invariant: a place's digests are those of the bytes that the
// last copy has put there, or nobody asks for them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "drivers/cuda/kernels/loaded_kernel.h"

namespace ebb::cuda {

class ChangeKernels {
 public:
  static constexpr std::size_t kPartBytes = 4096;
  static constexpr std::size_t kDigestBytes = 16;

  static const char* source();
  // For frames of `frame_bytes`, a multiple of kPartBytes, and so many places in host memory. Null with a sentence in
  // `reason`: no NVRTC, or no room for the digests.
  static std::unique_ptr<ChangeKernels> make(const Api& api, Context context, int capability, const std::string& nvrtc,
                                             std::size_t frame_bytes, std::size_t places, std::string& reason);
  ~ChangeKernels();
  ChangeKernels(const ChangeKernels&) = delete;
  ChangeKernels& operator=(const ChangeKernels&) = delete;

  // Remembers a frame's digests as those of a place.
  Result note(Pointer frame, std::size_t place, Stream stream) const;
  // Copies the parts whose digests are not those of the place, and remembers theirs.
  Result copy_changed(Pointer frame, void* to, std::size_t place, Stream stream) const;

 private:
  ChangeKernels(const Api& api, Context context) : api_(api), context_(context) {}
  Result start(const LoadedKernel& kernel, Pointer frame, const void* to, std::size_t place, Stream stream) const;

  const Api api_;
  const Context context_;
  std::shared_ptr<LoadedKernel> note_;
  std::shared_ptr<LoadedKernel> copy_;
  std::size_t frame_bytes_ = 0;
  Pointer digests_ = 0;
};

}  // namespace ebb::cuda
