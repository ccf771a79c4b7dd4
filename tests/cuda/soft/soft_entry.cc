// The entry points of the software CUDA driver: device, context, streams, events and copies. Memory:
// soft_entry_memory.cc.
#include <cstring>

#include "soft_world.h"

namespace ebb::soft {
namespace {

using namespace cuda;

constexpr auto kNothing = Call::Needs::kNothing;
constexpr auto kInit = Call::Needs::kInit;

// A stream of the program, as reset() and the limit of clocks allow.
Result make_stream(World& all, Stream* stream) {
  std::array<bool, kStreamsMax> taken{};
  taken[0] = true;  // the default one
  for (const auto& [name, other] : all.streams) taken[other->number()] = true;
  for (std::uint32_t i = 0; i < kStreamsMax; ++i) {
    if (taken[i]) continue;
    auto made = std::make_unique<SoftStream>(i);
    *stream = reinterpret_cast<Stream>(made.get());
    all.streams[made.get()] = std::move(made);
    return kSuccess;
  }
  return kOutOfMemory;
}

Result end_stream(Stream stream) {
  std::unique_ptr<SoftStream> ended;
  {
    World& all = world();
    const std::lock_guard lock(all.mutex);
    const auto found = all.streams.find(stream);
    if (found == all.streams.end()) {
      all.complain("a stream that does not exist is destroyed");
      return kInvalidHandle;
    }
    ended = std::move(found->second);
    all.streams.erase(found);
  }
  return kSuccess;  // runs what it was given, without the lock
}

}  // namespace

int new_stream(void** stream) {
  World& all = world();
  const std::lock_guard lock(all.mutex);
  Stream made = nullptr;
  const Result result = make_stream(all, &made);
  *stream = made;
  return result;
}

int order(void* before, void* after) {
  World& all = world();
  const std::lock_guard lock(all.mutex);
  SoftStream* const first = all.stream_of(static_cast<Stream>(before));
  SoftStream* const second = all.stream_of(static_cast<Stream>(after));
  if (first == nullptr || second == nullptr) return kInvalidHandle;
  const auto event = std::make_shared<SoftEvent>();
  all.order(*first);
  const std::uint64_t number = event->record();
  first->give([event, number] { event->reach(number); });
  second->clock.add(first->clock);
  second->give([event, number] { event->wait(number); });
  return kSuccess;
}

int delete_stream(void* stream) { return end_stream(static_cast<Stream>(stream)); }

}  // namespace ebb::soft

using namespace ebb::cuda;
using namespace ebb::soft;

extern "C" {

EBB_SOFT Result cuInit(unsigned flags) {
  Call call("cuInit", kNothing);
  if (call.result() != kSuccess) return call.result();
  if (call->machine.devices == 0) return kNoDevice;
  call->initialized = true;
  return flags == 0 ? kSuccess : kInvalidValue;
}

EBB_SOFT Result cuDriverGetVersion(int* version) {
  *version = world().machine.driver_version;
  return kSuccess;
}

EBB_SOFT Result cuGetErrorName(Result error, const char** text) {
  switch (error) {
    case kSuccess: *text = "CUDA_SUCCESS"; break;
    case kOutOfMemory: *text = "CUDA_ERROR_OUT_OF_MEMORY"; break;
    case kNoDevice: *text = "CUDA_ERROR_NO_DEVICE"; break;
    case kUncorrectable: *text = "CUDA_ERROR_ECC_UNCORRECTABLE"; break;
    case kIllegalAddress: *text = "CUDA_ERROR_ILLEGAL_ADDRESS"; break;
    case kDriverMismatch: *text = "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"; break;
    default: *text = nullptr; return kInvalidValue;
  }
  return kSuccess;
}

EBB_SOFT Result cuGetErrorString(Result, const char** text) {
  *text = "an error of the software driver";
  return kSuccess;
}

EBB_SOFT Result cuDeviceGetCount(int* count) {
  Call call("cuDeviceGetCount", kInit);
  *count = call->machine.devices;
  return call.result();
}

EBB_SOFT Result cuDeviceGet(Device* device, int ordinal) {
  Call call("cuDeviceGet", kInit);
  if (call.result() != kSuccess) return call.result();
  *device = ordinal;
  return ordinal < call->machine.devices ? kSuccess : kInvalidDevice;
}

EBB_SOFT Result cuDeviceGetName(char* name, int bytes, Device) {
  Call call("cuDeviceGetName", kInit);
  std::strncpy(name, "software device", static_cast<std::size_t>(bytes));
  return call.result();
}

EBB_SOFT Result cuDeviceTotalMem_v2(std::size_t* bytes, Device) {
  Call call("cuDeviceTotalMem", kInit);
  *bytes = call->machine.memory_bytes;
  return call.result();
}

EBB_SOFT Result cuDeviceGetAttribute(int* value, int attribute, Device) {
  Call call("cuDeviceGetAttribute", kInit);
  switch (attribute) {
    case kAttributeVirtualMemory: *value = call->machine.virtual_memory ? 1 : 0; break;
    case kAttributePageableAccess: *value = call->machine.pageable_access ? 1 : 0; break;
    case kAttributeMajor: *value = 9; break;
    default: *value = 0;
  }
  return call.result();
}

EBB_SOFT Result cuDevicePrimaryCtxRetain(Context* context, Device) {
  Call call("cuDevicePrimaryCtxRetain", kInit);
  if (call.result() != kSuccess) return call.result();
  ++call->contexts;
  *context = the_context();
  return kSuccess;
}

EBB_SOFT Result cuDevicePrimaryCtxRelease_v2(Device) {
  Call call("cuDevicePrimaryCtxRelease", kInit);
  if (call.result() != kSuccess) return call.result();
  if (call->contexts == 0) call->complain("a context is released that is not retained");
  call->contexts -= call->contexts > 0 ? 1 : 0;
  return kSuccess;
}

// These two never fail here: a test of failing calls would find calls without a context, which only mean this.
EBB_SOFT Result cuCtxPushCurrent_v2(Context context) {
  current_contexts().push_back(context);
  return kSuccess;
}

EBB_SOFT Result cuCtxPopCurrent_v2(Context* context) {
  auto& contexts = current_contexts();
  if (contexts.empty()) return kInvalidContext;
  *context = contexts.back();
  contexts.pop_back();
  return kSuccess;
}

EBB_SOFT Result cuCtxGetCurrent(Context* context) {
  *context = current_contexts().empty() ? nullptr : current_contexts().back();
  return kSuccess;
}

EBB_SOFT Result cuStreamCreate(Stream* stream, unsigned) {
  Call call("cuStreamCreate");
  if (call.result() != kSuccess) return call.result();
  return make_stream(*call, stream);
}

EBB_SOFT Result cuStreamDestroy_v2(Stream stream) {
  {
    Call call("cuStreamDestroy");
    if (call.result() != kSuccess && call->broken == kSuccess) return call.result();
  }
  return end_stream(stream);
}

EBB_SOFT Result cuEventCreate(Event* event, unsigned) {
  Call call("cuEventCreate");
  if (call.result() != kSuccess) return call.result();
  auto made = std::make_shared<SoftEvent>();
  *event = reinterpret_cast<Event>(made.get());
  call->events[made.get()] = made;
  return kSuccess;
}

EBB_SOFT Result cuEventDestroy_v2(Event event) {
  Call call("cuEventDestroy");
  if (call->events.erase(event) == 0) call->complain("an event that does not exist is destroyed");
  return call.result();
}

EBB_SOFT Result cuEventRecord(Event event, Stream stream) {
  Call call("cuEventRecord");
  if (call.result() != kSuccess) return call.result();
  const std::shared_ptr<SoftEvent> recorded = call->event_of(event);
  SoftStream* const given = call->stream_of(stream);
  if (recorded == nullptr || given == nullptr) return kInvalidHandle;
  call->order(*given);
  recorded->clock = given->clock;
  const std::uint64_t number = recorded->record();
  given->give([recorded, number] { recorded->reach(number); });
  return kSuccess;
}

EBB_SOFT Result cuEventQuery(Event event) {
  Call call("cuEventQuery");
  if (call.result() != kSuccess) return call.result();
  const std::shared_ptr<SoftEvent> asked = call->event_of(event);
  if (asked == nullptr) return kInvalidHandle;
  if (!asked->done()) return kNotReady;
  call->host.add(asked->clock);
  return call->broken;
}

EBB_SOFT Result cuEventElapsedTime(float* milliseconds, Event from, Event to) {
  Call call("cuEventElapsedTime");
  if (call.result() != kSuccess) return call.result();
  const std::shared_ptr<SoftEvent> first = call->event_of(from);
  const std::shared_ptr<SoftEvent> second = call->event_of(to);
  if (first == nullptr || second == nullptr) return kInvalidHandle;
  if (!first->done() || !second->done()) return kNotReady;
  call->host.add(first->clock);
  call->host.add(second->clock);
  *milliseconds = std::chrono::duration<float, std::milli>(second->done_at() - first->done_at()).count();
  return call->broken;
}

EBB_SOFT Result cuStreamWaitEvent(Stream stream, Event event, unsigned) {
  Call call("cuStreamWaitEvent");
  if (call.result() != kSuccess) return call.result();
  const std::shared_ptr<SoftEvent> awaited = call->event_of(event);
  SoftStream* const given = call->stream_of(stream);
  if (awaited == nullptr || given == nullptr) return kInvalidHandle;
  given->clock.add(awaited->clock);
  const std::uint64_t number = awaited->recorded();
  given->give([awaited, number] { awaited->wait(number); });
  return kSuccess;
}

EBB_SOFT Result cuMemcpyHtoDAsync_v2(Pointer to, const void* from, std::size_t bytes, Stream stream) {
  Call call("cuMemcpyHtoDAsync");
  if (call.result() != kSuccess) return call.result();
  SoftStream* const given = call->stream_of(stream);
  if (given == nullptr) return kInvalidHandle;
  auto* const device = reinterpret_cast<std::byte*>(to);
  call->order(*given);
  if (!call->touch(*given, from, bytes, false, true)) call->complain("a copy from memory that is not pinned");
  if (!call->touch(*given, device, bytes, true, false)) return kInvalidValue;
  World& all = *call;
  call->give(*given, [&all, device, from, bytes] {
    return run_guarded([=] { std::memcpy(device, from, bytes); }, all.arena, all.arena + kArenaBytes);
  });
  return kSuccess;
}

EBB_SOFT Result cuMemcpyDtoHAsync_v2(void* to, Pointer from, std::size_t bytes, Stream stream) {
  Call call("cuMemcpyDtoHAsync");
  if (call.result() != kSuccess) return call.result();
  SoftStream* const given = call->stream_of(stream);
  if (given == nullptr) return kInvalidHandle;
  const auto* const device = reinterpret_cast<const std::byte*>(from);
  call->order(*given);
  if (!call->touch(*given, to, bytes, true, true)) call->complain("a copy to memory that is not pinned");
  if (!call->touch(*given, device, bytes, false, false)) return kInvalidValue;
  World& all = *call;
  call->give(*given, [&all, device, to, bytes] {
    return run_guarded([=] { std::memcpy(to, device, bytes); }, all.arena, all.arena + kArenaBytes);
  });
  return kSuccess;
}

EBB_SOFT Result cuMemsetD8Async(Pointer to, unsigned char value, std::size_t bytes, Stream stream) {
  Call call("cuMemsetD8Async");
  if (call.result() != kSuccess) return call.result();
  SoftStream* const given = call->stream_of(stream);
  if (given == nullptr) return kInvalidHandle;
  auto* const device = reinterpret_cast<std::byte*>(to);
  call->order(*given);
  if (!call->touch(*given, device, bytes, true, false)) return kInvalidValue;
  World& all = *call;
  call->give(*given, [&all, device, value, bytes] {
    return run_guarded([=] { std::memset(device, value, bytes); }, all.arena, all.arena + kArenaBytes);
  });
  return kSuccess;
}

}  // extern "C"
