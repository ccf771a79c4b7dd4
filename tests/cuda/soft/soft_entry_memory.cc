// The entry points of the software CUDA driver that give, map and take memory.
#include <sys/mman.h>

#include <cstdlib>

#include "soft_world.h"

using namespace ebb::cuda;
using namespace ebb::soft;

namespace {

std::byte* bytes_at(Pointer address) { return reinterpret_cast<std::byte*>(address); }

}  // namespace

extern "C" {

EBB_SOFT Result cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  Call call("cuMemGetInfo");
  *total = call->machine.memory_bytes;
  *free = *total - call->memory_used;
  return call.result();
}

EBB_SOFT Result cuMemAlloc_v2(Pointer* pointer, std::size_t bytes) {
  Call call("cuMemAlloc");
  if (call.result() != kSuccess) return call.result();
  const std::size_t whole = (bytes + 4095) / 4096 * 4096;
  auto* const address = static_cast<std::byte*>(call->reserve(whole, 4096));
  const std::shared_ptr<Physical> memory = call->make_memory(whole);
  if (address == nullptr || memory == nullptr || !call->map(address, whole, memory)) return kOutOfMemory;
  memory->released = true;  // lives as long as it is mapped
  call->mappings[address].plain = true;
  call->mappings[address].permitted = ::mprotect(address, whole, PROT_READ | PROT_WRITE) == 0;
  *pointer = reinterpret_cast<Pointer>(address);
  return kSuccess;
}

EBB_SOFT Result cuMemFree_v2(Pointer pointer) {
  Call call("cuMemFree");
  if (call.result() != kSuccess) return call.result();
  const auto found = call->mappings.find(bytes_at(pointer));
  if (found == call->mappings.end() || !found->second.plain) return kInvalidValue;
  if (call->in_use(found->second.users)) call->complain("memory is freed that work still uses");
  call->unmap(found->first, found->second);
  return kSuccess;
}

EBB_SOFT Result cuMemHostAlloc(void** data, std::size_t bytes, unsigned) {
  Call call("cuMemHostAlloc");
  if (call.result() != kSuccess) return call.result();
  if (bytes > call->machine.pinned_bytes - call->pinned_used) return kOutOfMemory;
  if (::posix_memalign(data, 4096, bytes) != 0) return kOutOfMemory;
  call->pinned[static_cast<std::byte*>(*data)] = {bytes, std::make_shared<Shadow>(bytes)};
  call->pinned_used += bytes;
  return kSuccess;
}

EBB_SOFT Result cuMemFreeHost(void* data) {
  Call call("cuMemFreeHost");
  if (call.result() != kSuccess) return call.result();
  const auto found = call->pinned.find(static_cast<std::byte*>(data));
  if (found == call->pinned.end()) return kInvalidValue;
  if (!found->second.shadow->over(call->host)) call->complain("pinned memory is freed that copies still use");
  call->pinned_used -= found->second.bytes;
  std::free(data);
  call->pinned.erase(found);
  return kSuccess;
}

EBB_SOFT Result cuMemGetAllocationGranularity(std::size_t* bytes, const AllocationProperties* properties, int) {
  Call call("cuMemGetAllocationGranularity");
  *bytes = call->machine.granularity;
  return properties->type == kAllocationPinned ? call.result() : kInvalidValue;
}

EBB_SOFT Result cuMemAddressReserve(Pointer* address, std::size_t bytes, std::size_t alignment, Pointer,
                                    unsigned long long) {
  Call call("cuMemAddressReserve");
  if (call.result() != kSuccess) return call.result();
  if (bytes == 0 || bytes % call->machine.granularity != 0) return kInvalidValue;
  void* const reserved = call->reserve(bytes, alignment);
  if (reserved == nullptr) return kOutOfMemory;
  call->reservations[static_cast<std::byte*>(reserved)] = bytes;
  *address = reinterpret_cast<Pointer>(reserved);
  return kSuccess;
}

EBB_SOFT Result cuMemAddressFree(Pointer address, std::size_t bytes) {
  Call call("cuMemAddressFree");
  if (call.result() != kSuccess) return call.result();
  const auto found = call->reservations.find(bytes_at(address));
  if (found == call->reservations.end() || found->second != bytes) return kInvalidValue;
  const auto mapped = call->mappings.lower_bound(found->first);
  if (mapped != call->mappings.end() && mapped->first < found->first + bytes) {
    call->complain("addresses are given back that are still mapped");
  }
  call->reservations.erase(found);
  return kSuccess;
}

EBB_SOFT Result cuMemCreate(Handle* handle, std::size_t bytes, const AllocationProperties* properties,
                            unsigned long long flags) {
  Call call("cuMemCreate");
  if (call.result() != kSuccess) return call.result();
  if (bytes == 0 || bytes % call->machine.granularity != 0 || flags != 0) return kInvalidValue;
  if (properties->location.type != kLocationDevice || properties->type != kAllocationPinned) return kInvalidValue;
  const std::shared_ptr<Physical> memory = call->make_memory(bytes);
  if (memory == nullptr) return kOutOfMemory;
  *handle = call->next_handle++;
  call->handles[*handle] = memory;
  return kSuccess;
}

EBB_SOFT Result cuMemRelease(Handle handle) {
  Call call("cuMemRelease");
  if (call.result() != kSuccess) return call.result();
  const auto found = call->handles.find(handle);
  if (found == call->handles.end()) return kInvalidValue;
  const std::shared_ptr<Physical> memory = found->second;
  if (memory->mapped == 0 && !memory->shadow.over(call->host)) {
    call->complain("memory is released that work still uses");
  }
  call->handles.erase(found);
  memory->released = true;
  call->put_back(memory);
  return kSuccess;
}

EBB_SOFT Result cuMemMap(Pointer address, std::size_t bytes, std::size_t offset, Handle handle, unsigned long long) {
  Call call("cuMemMap");
  if (call.result() != kSuccess) return call.result();
  const auto found = call->handles.find(handle);
  if (found == call->handles.end() || offset != 0 || bytes != found->second->bytes) return kInvalidValue;
  std::byte* const begin = bytes_at(address);
  auto reserved = call->reservations.upper_bound(begin);
  if (reserved == call->reservations.begin() ||
      begin + bytes > std::prev(reserved)->first + std::prev(reserved)->second) {
    return kInvalidValue;
  }
  const auto next = call->mappings.lower_bound(begin);
  if (call->mapping_at(begin) != nullptr || (next != call->mappings.end() && next->first < begin + bytes)) {
    call->complain("an address is mapped that is mapped already");
    return kInvalidValue;
  }
  return call->map(begin, bytes, found->second) ? kSuccess : kOutOfMemory;
}

EBB_SOFT Result cuMemUnmap(Pointer address, std::size_t bytes) {
  Call call("cuMemUnmap");
  if (call.result() != kSuccess) return call.result();
  std::byte* at = bytes_at(address);
  std::byte* const end = at + bytes;
  for (std::byte* look = at; look < end;) {
    const auto found = call->mappings.find(look);
    if (found == call->mappings.end() || look + found->second.bytes > end) return kInvalidValue;
    if (call->in_use(found->second.users)) call->complain("an address is unmapped that work still uses");
    look += found->second.bytes;
  }
  while (at < end) {
    const auto found = call->mappings.find(at);
    const std::size_t part = found->second.bytes;
    call->unmap(at, found->second);
    at += part;
  }
  return kSuccess;
}

EBB_SOFT Result cuMemSetAccess(Pointer address, std::size_t bytes, const AccessDescriptor* access, std::size_t count) {
  Call call("cuMemSetAccess");
  if (call.result() != kSuccess) return call.result();
  if (count != 1 || access->flags != kAccessReadWrite) return kInvalidValue;
  std::byte* at = bytes_at(address);
  std::byte* const end = at + bytes;
  while (at < end) {
    const auto found = call->mappings.find(at);
    if (found == call->mappings.end() || at + found->second.bytes > end) return kInvalidValue;
    if (::mprotect(at, found->second.bytes, PROT_READ | PROT_WRITE) != 0) return kOutOfMemory;
    found->second.permitted = true;
    at += found->second.bytes;
  }
  return kSuccess;
}

EBB_SOFT Result cuMemPrefetchAsync_v2(Pointer address, std::size_t bytes, Location to, unsigned flags, Stream stream) {
  Call call("cuMemPrefetchAsync");
  if (call.result() != kSuccess) return call.result();
  if (!call->machine.prefetch) return kNotSupported;
  if (flags != 0 || bytes == 0 || call->stream_of(stream) == nullptr) return kInvalidValue;
  if (!call->machine.pageable_access && !call->is_device(bytes_at(address))) return kInvalidValue;
  if (to.type != kLocationDevice && to.type != kLocationHost) return kInvalidValue;
  call->prefetches.push_back({bytes_at(address), bytes, to.type == kLocationHost ? kHost : to.id});
  return kSuccess;
}

// As drivers before CUDA 12.2 have it, and later ones too.
EBB_SOFT Result cuMemPrefetchAsync(Pointer address, std::size_t bytes, Device to, Stream stream) {
  const Location location = to == kHost ? Location{kLocationHost, 0} : Location{kLocationDevice, to};
  return cuMemPrefetchAsync_v2(address, bytes, location, 0, stream);
}

}  // extern "C"
