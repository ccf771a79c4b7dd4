// See soft_world.h.
#include "soft_world.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <utility>

#include "soft_host.h"

namespace ebb::soft {

using namespace cuda;

World& world() {
  // Never destroyed: programs call the driver until the very end.
  static World* const made = [] {
    auto* const fresh = new World;
    fresh->reset({});
    return fresh;
  }();
  return *made;
}

std::vector<Context>& current_contexts() {
  thread_local std::vector<Context> contexts;
  return contexts;
}

World::~World() = default;

void World::reset(const Machine& wanted) {
  machine = wanted;
  streams.clear();
  default_stream.reset();
  events.clear();
  mappings.clear();
  reservations.clear();
  handles.clear();
  modules.clear();
  expected.clear();
  for (const auto& [data, block] : pinned) std::free(data);
  pinned.clear();
  if (arena != nullptr) ::munmap(arena, kArenaBytes);
  if (file >= 0) ::close(file);
  void* const mapped = ::mmap(nullptr, kArenaBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  arena = mapped == MAP_FAILED ? nullptr : static_cast<std::byte*>(mapped);
  file = ::memfd_create("soft_cuda", MFD_CLOEXEC);
  arena_used = file_used = memory_used = pinned_used = 0;
  counts = {};
  host = {};
  contexts = 0;
  initialized = false;
  broken = kSuccess;
  violations.clear();
  prefetches.clear();
  calls = fail_nth = 0;
  fail_function.clear();
}

Mapping* World::mapping_at(const void* address, std::byte** begin) {
  auto found = mappings.upper_bound(static_cast<std::byte*>(const_cast<void*>(address)));
  if (found == mappings.begin()) return nullptr;
  --found;
  if (static_cast<const std::byte*>(address) >= found->first + found->second.bytes) return nullptr;
  if (begin != nullptr) *begin = found->first;
  return &found->second;
}

void World::order(SoftStream& stream) {
  stream.clock.add(host);
  stream.given = ++counts[stream.number()];
  stream.clock.until[stream.number()] = stream.given;
}

bool World::is_pinned(const void* address, std::size_t bytes) const {
  const auto* const at = static_cast<const std::byte*>(address);
  const auto found = pinned.upper_bound(const_cast<std::byte*>(at));
  return found != pinned.begin() && at + bytes <= std::prev(found)->first + std::prev(found)->second.bytes;
}

bool World::touch(SoftStream& stream, const void* address, std::size_t bytes, bool write, bool of_host) {
  const auto report = [&](int other) {
    if (other >= 0) {
      complain("race: stream " + std::to_string(stream.number()) + (write ? " writes" : " reads") + " what stream " +
               std::to_string(other) + " uses, and nothing orders them");
    }
  };
  const auto* at = static_cast<const std::byte*>(address);
  if (of_host) {
    if (!is_pinned(address, bytes)) return false;
    const auto found = std::prev(pinned.upper_bound(const_cast<std::byte*>(at)));
    report(found->second.shadow->touch(static_cast<std::size_t>(at - found->first), bytes, write, stream.number(),
                                       stream.given, stream.clock));
    return true;
  }
  while (bytes > 0) {
    std::byte* begin = nullptr;
    Mapping* const mapping = mapping_at(at, &begin);
    if (mapping == nullptr || !mapping->permitted) return false;
    const auto offset = static_cast<std::size_t>(at - begin);
    const std::size_t part = std::min(bytes, mapping->bytes - offset);
    report(mapping->memory->shadow.touch(offset, part, write, stream.number(), stream.given, stream.clock));
    mapping->users.until[stream.number()] = stream.given;
    at += part;
    bytes -= part;
  }
  return true;
}

bool World::accessible(const void* address, std::size_t bytes) {
  const auto* at = static_cast<const std::byte*>(address);
  const auto* const end = at + bytes;
  while (at < end) {
    std::byte* begin = nullptr;
    const Mapping* const mapping = mapping_at(at, &begin);
    if (mapping == nullptr || !mapping->permitted) return false;
    at = begin + mapping->bytes;
  }
  return true;
}

bool World::all_accessible(std::span<const Touch> touches) {
  std::vector<Touch> pageable;
  {
    const std::lock_guard lock(mutex);
    for (const Touch& wanted : touches) {
      if (is_device(wanted.address)) {
        if (!accessible(wanted.address, wanted.bytes)) return false;
      } else if (wanted.bytes > 0 && !is_pinned(wanted.address, wanted.bytes)) {
        if (!machine.pageable_access) return false;
        pageable.push_back(wanted);
      }
    }
  }
  return std::ranges::all_of(pageable, [](const Touch& wanted) { return host_accessible(wanted); });
}

SoftStream* World::stream_of(Stream stream) {
  if (stream == nullptr) {
    if (default_stream == nullptr) default_stream = std::make_unique<SoftStream>(0);
    return default_stream.get();
  }
  const auto found = streams.find(stream);
  return found == streams.end() ? nullptr : found->second.get();
}

std::shared_ptr<SoftEvent> World::event_of(Event event) {
  const auto found = events.find(event);
  return found == events.end() ? nullptr : found->second;
}

void World::give(SoftStream& stream, std::function<bool()> work) {
  stream.give([this, work = std::move(work)] {
    {
      const std::lock_guard lock(mutex);
      if (broken != kSuccess) return;
    }
    if (work()) return;
    const std::lock_guard lock(mutex);
    if (broken == kSuccess) broken = kIllegalAddress;
  });
}

void* World::reserve(std::size_t bytes, std::size_t alignment) {
  const std::size_t step = std::max(alignment, machine.granularity);
  const auto base = reinterpret_cast<std::uintptr_t>(arena);
  const std::size_t begin = (base + arena_used + step - 1) / step * step - base;
  if (arena == nullptr || bytes > kArenaBytes || begin > kArenaBytes - bytes) return nullptr;
  arena_used = begin + bytes;
  return arena + begin;
}

std::shared_ptr<Physical> World::make_memory(std::size_t bytes) {
  if (bytes > machine.memory_bytes - memory_used) return nullptr;
  if (::ftruncate(file, static_cast<off_t>(file_used + bytes)) != 0) return nullptr;
  auto made = std::make_shared<Physical>(Physical{file_used, bytes, 0, false, Shadow(bytes)});
  file_used += bytes;
  memory_used += bytes;
  return made;
}

void World::put_back(const std::shared_ptr<Physical>& memory) {
  if (!memory->released || memory->mapped > 0) return;
  memory_used -= memory->bytes;
  ::fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(memory->offset),
              static_cast<off_t>(memory->bytes));
}

bool World::map(std::byte* address, std::size_t bytes, const std::shared_ptr<Physical>& memory) {
  if (::mmap(address, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, file, static_cast<off_t>(memory->offset)) ==
      MAP_FAILED) {
    return false;
  }
  ++memory->mapped;
  Mapping mapping;
  mapping.bytes = bytes;
  mapping.memory = memory;
  mappings[address] = mapping;
  return true;
}

void World::unmap(std::byte* address, const Mapping& mapping) {
  const std::shared_ptr<Physical> memory = mapping.memory;
  ::mmap(address, mapping.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  mappings.erase(address);
  --memory->mapped;
  put_back(memory);
}

bool World::in_use(const Clock& users) const {
  for (std::uint32_t i = 0; i < kStreamsMax; ++i) {
    if (users.until[i] > host.until[i]) return true;
  }
  return false;
}

void World::start(SoftStream& stream, std::span<const Touch> touches, std::function<void()> body) {
  order(stream);
  for (const Touch& wanted : touches) {
    // As on a GPU it is found when the kernel runs, if the address has not been mapped by then.
    static_cast<void>(touch(stream, wanted.address, wanted.bytes, wanted.write, false));
    if (is_device(wanted.address) || wanted.bytes == 0) continue;
    if (!touch(stream, wanted.address, wanted.bytes, wanted.write, true) && !machine.pageable_access) {
      complain("a kernel touches memory of the host, which this device does not reach");
    }
  }
  give(stream, [this, body = std::move(body), kept = std::vector<Touch>(touches.begin(), touches.end())] {
    if (!all_accessible(kept) || !run_guarded(body, arena, arena + kArenaBytes)) return false;
    // Memory of the host has to stay, too: what the runtime took meanwhile, a GPU would not have found.
    return std::ranges::all_of(
        kept, [&](const Touch& wanted) { return is_device(wanted.address) || host_accessible(wanted); });
  });
}

Call::Call(const char* function, Needs needs) : world_(world()), lock_(world_.mutex) {
  ++world_.calls;
  if (world_.fail_nth > 0 && (world_.fail_function.empty() || world_.fail_function == function)) {
    if (--world_.fail_nth == 0) {
      result_ = world_.fail_with;
      return;
    }
  }
  if (world_.broken != kSuccess) {
    result_ = world_.broken;
  } else if (needs != Needs::kNothing && !world_.initialized) {
    result_ = kNotInitialized;
  } else if (needs == Needs::kContext && (current_contexts().empty() || world_.contexts == 0)) {
    world_.complain(std::string(function) + " without a current context");
    result_ = kInvalidContext;
  }
}

// What tests call.

void reset(const Machine& machine) {
  World& all = world();
  // The threads of streams take the lock until they have ended.
  std::map<void*, std::unique_ptr<SoftStream>> streams;
  std::unique_ptr<SoftStream> default_stream;
  {
    const std::lock_guard lock(all.mutex);
    streams.swap(all.streams);
    default_stream.swap(all.default_stream);
  }
  streams.clear();
  default_stream.reset();
  const std::lock_guard lock(all.mutex);
  all.reset(machine);
}

int launch(void* stream, std::span<const Touch> touches, std::function<void()> body) {
  World& all = world();
  const std::lock_guard lock(all.mutex);
  if (all.broken != kSuccess) return all.broken;
  SoftStream* const given = all.stream_of(static_cast<Stream>(stream));
  if (given == nullptr) return kInvalidHandle;
  all.start(*given, touches, std::move(body));
  return kSuccess;
}

void expect(void* stream, std::span<const Touch> touches) {
  World& all = world();
  const std::lock_guard lock(all.mutex);
  all.expected[stream].assign(touches.begin(), touches.end());
}

int wait_for(void* stream) {
  World& all = world();
  SoftStream* given = nullptr;
  Clock clock;
  {
    const std::lock_guard lock(all.mutex);
    given = all.stream_of(static_cast<Stream>(stream));
    if (given == nullptr) return kInvalidHandle;
    clock = given->clock;
  }
  given->drain();
  const std::lock_guard lock(all.mutex);
  all.host.add(clock);
  return all.broken;
}

std::vector<Prefetch> take_prefetches() {
  World& all = world();
  const std::lock_guard lock(all.mutex);
  return std::exchange(all.prefetches, {});
}

std::vector<std::string> take_violations() {
  World& all = world();
  const std::lock_guard lock(all.mutex);
  return std::exchange(all.violations, {});
}

Live live() {
  World& all = world();
  const std::lock_guard lock(all.mutex);
  Live left;
  left.reservations = all.reservations.size();
  for (const auto& [address, mapping] : all.mappings) ++(mapping.plain ? left.allocations : left.mappings);
  left.handles = all.handles.size();
  left.pinned = all.pinned.size();
  left.streams = all.streams.size();
  left.events = all.events.size();
  left.contexts = all.contexts;
  left.modules = all.modules.size();
  return left;
}

void fail_call(std::uint64_t nth, int error, const char* function) {
  World& all = world();
  const std::lock_guard lock(all.mutex);
  all.fail_nth = nth;
  all.fail_with = error;
  all.fail_function = function != nullptr ? function : "";
  all.calls = 0;
}

std::uint64_t calls() {
  World& all = world();
  const std::lock_guard lock(all.mutex);
  return all.calls;
}

void lose(int error) {
  World& all = world();
  const std::lock_guard lock(all.mutex);
  all.broken = error;
}

}  // namespace ebb::soft
