// See change_kernels.h.
#include "drivers/cuda/kernels/change_kernels.h"

#include <algorithm>
#include <array>

#include "drivers/cuda/kernels/compiler.h"

namespace ebb::cuda {
namespace {

// The threads of a warp read neighbouring words of 16 bytes, so that each step of theirs is one access to 512 bytes:
// a part is every `lanes`-th word of the parts of its warp. Multiplying by an odd number and folding the upper bits
// into the lower ones can both be undone, so one changed word always changes the digest. Both kernels have the same
// parameters; `bytes` is for who checks what they touch (tests/cuda/soft).
constexpr const char* kSource = R"(
struct Word { unsigned long long x, y; };

__device__ void add(Word* digest, Word word) {
  digest->x = (digest->x ^ word.x) * 0x9e3779b97f4a7c15ull;
  digest->x ^= digest->x >> 29;
  digest->y = (digest->y ^ word.y ^ (digest->x >> 32)) * 0xc2b2ae3d27d4eb4full;
  digest->y ^= digest->y >> 31;
}

__device__ Word digest_of(const Word* from, unsigned lanes) {
  Word digest = {0x165667b19e3779f9ull, 0x27d4eb2f165667c5ull};
#pragma unroll 8
  for (unsigned i = 0; i < 256; ++i) add(&digest, from[(unsigned long long)i * lanes]);
  return digest;
}

extern "C" __global__ void ebb_note(const Word* frame, Word* to, Word* digests, unsigned long long bytes,
                                    unsigned lanes) {
  const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
  digests[thread] = digest_of(frame + (unsigned long long)(thread / lanes) * lanes * 256 + thread % lanes, lanes);
}

extern "C" __global__ void ebb_copy(const Word* frame, Word* to, Word* digests, unsigned long long bytes,
                                    unsigned lanes) {
  const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned long long first = (unsigned long long)(thread / lanes) * lanes * 256 + thread % lanes;
  const Word digest = digest_of(frame + first, lanes);
  if (digest.x == digests[thread].x && digest.y == digests[thread].y) return;
#pragma unroll 8
  for (unsigned i = 0; i < 256; ++i) {
    to[first + (unsigned long long)i * lanes] = frame[first + (unsigned long long)i * lanes];
  }
  digests[thread] = digest;
}
)";

constexpr unsigned kLanes = 32;
constexpr unsigned kThreads = 128;

// Digests of a place, for itself: as much apart as allocations are.
std::size_t digests_bytes(std::size_t frame_bytes) {
  return std::max<std::size_t>(frame_bytes / ChangeKernels::kPartBytes * ChangeKernels::kDigestBytes, 512);
}

}  // namespace

const char* ChangeKernels::source() { return kSource; }

std::unique_ptr<ChangeKernels> ChangeKernels::make(const Api& api, Context context, int capability,
                                                   const std::string& nvrtc, std::size_t frame_bytes,
                                                   std::size_t places, std::string& reason) {
  std::unique_ptr<ChangeKernels> made(new ChangeKernels(api, context));
  made->frame_bytes_ = frame_bytes;
  Compiler compiler;
  if (Compiler::make(nvrtc, capability, compiler, reason) != Status::kOk) return nullptr;
  try {
    const std::string image = compiler.compile(kSource);
    made->note_ = std::make_shared<LoadedKernel>(api, context);
    made->copy_ = std::make_shared<LoadedKernel>(api, context);
    const char* call = "";
    Result result = made->note_->load(image, "ebb_note", call);
    if (result == kSuccess) result = made->copy_->load(image, "ebb_copy", call);
    if (result != kSuccess) {
      reason = std::string(call) + " failed with " + api.text(result);
      return nullptr;
    }
  } catch (const Error& error) {
    reason = error.what();
    return nullptr;
  }
  const std::size_t bytes = digests_bytes(frame_bytes) * places;
  if (const Result result = api.allocate(&made->digests_, bytes); result != kSuccess) {
    made->digests_ = 0;
    reason = "there is no room on the GPU for digests: " + api.text(result);
    return nullptr;
  }
  return made;
}

ChangeKernels::~ChangeKernels() {
  if (digests_ != 0) static_cast<void>(api_.free(digests_));
}

Result ChangeKernels::note(Pointer frame, std::size_t place, Stream stream) const {
  return start(*note_, frame, nullptr, place, stream);
}

Result ChangeKernels::copy_changed(Pointer frame, void* to, std::size_t place, Stream stream) const {
  return start(*copy_, frame, to, place, stream);
}

Result ChangeKernels::start(const LoadedKernel& kernel, Pointer frame, const void* to, std::size_t place,
                            Stream stream) const {
  const std::size_t parts = frame_bytes_ / kPartBytes;
  const Pointer digests = digests_ + place * digests_bytes(frame_bytes_);
  const unsigned long long bytes = frame_bytes_;
  const unsigned lanes = static_cast<unsigned>(std::min<std::size_t>(parts, kLanes));
  const unsigned threads = static_cast<unsigned>(std::min<std::size_t>(parts, kThreads));
  const std::array<const void*, 5> parameters{&frame, &to, &digests, &bytes, &lanes};
  return kernel.start(stream, {static_cast<unsigned>(parts / threads), threads}, parameters);
}

}  // namespace ebb::cuda
