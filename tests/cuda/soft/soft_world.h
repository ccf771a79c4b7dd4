// World: all state of the software CUDA driver: one device, its memory and addresses, streams and events.
//
// One lock guards it; each entry point takes it through a Call, which also counts, injects failures and complains about
// what no program should do. Work runs in the streams' threads without the lock, and takes it only to look up mappings.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "drivers/cuda/cuda_api.h"
#include "soft_driver.h"
#include "soft_races.h"
#include "soft_stream.h"

namespace ebb::soft {

inline constexpr std::size_t kArenaBytes = std::size_t{8} << 30;

// Physical memory: a part of one file, so that it can be mapped at several addresses.
struct Physical {
  std::size_t offset = 0;
  std::size_t bytes = 0;
  std::size_t mapped = 0;  // at so many addresses
  bool released = false;
  Shadow shadow;
};

struct Mapping {
  std::size_t bytes = 0;
  std::shared_ptr<Physical> memory;
  bool permitted = false;
  bool plain = false;  // of cuMemAlloc
  Clock users;         // the last work of each stream that touches it here
};

// A library that the software NVRTC has made, and the functions found in it.
struct SoftFunction {
  void (*run)(void** parameters, const unsigned* grid, const unsigned* block) = nullptr;
  const unsigned* sizes = nullptr;  // of the parameters, in bytes; 0 ends them
};
struct SoftModule {
  void* library = nullptr;
  std::map<std::string, SoftFunction> functions;
  Clock users;  // the last kernel of each stream
};

class World {
 public:
  World() = default;
  ~World();

  // Under mutex.
  void reset(const Machine& machine);
  void complain(const std::string& what) { violations.push_back(what); }
  // The mapping that holds this address, or null.
  Mapping* mapping_at(const void* address, std::byte** begin = nullptr);
  // Notes that work of a stream touches these bytes; false: they are not all there.
  bool touch(SoftStream& stream, const void* address, std::size_t bytes, bool write, bool of_host);
  // Memory of the host that every device reaches.
  bool is_pinned(const void* address, std::size_t bytes) const;
  // Whether an access to the device's addresses can be made now, looked at when the work runs.
  bool accessible(const void* address, std::size_t bytes);
  bool is_device(const void* address) const { return address >= arena && address < arena + kArenaBytes; }
  // The same for all that a kernel touches; the host's memory without the lock.
  bool all_accessible(std::span<const Touch> touches);
  // Numbers a new piece of work.
  void order(SoftStream& stream);
  SoftStream* stream_of(cuda::Stream stream);
  std::shared_ptr<SoftEvent> event_of(cuda::Event event);
  // Gives work to a stream; it is left out once the device is broken.
  void give(SoftStream& stream, std::function<bool()> work);
  void* reserve(std::size_t bytes, std::size_t alignment);
  std::shared_ptr<Physical> make_memory(std::size_t bytes);
  void put_back(const std::shared_ptr<Physical>& memory);
  bool map(std::byte* address, std::size_t bytes, const std::shared_ptr<Physical>& memory);
  void unmap(std::byte* address, const Mapping& mapping);
  bool in_use(const Clock& users) const;
  // Gives a kernel to a stream: `body` runs where what it touches is there by then.
  void start(SoftStream& stream, std::span<const Touch> touches, std::function<void()> body);

  std::mutex mutex;
  Machine machine;
  std::byte* arena = nullptr;
  std::size_t arena_used = 0;
  int file = -1;
  std::size_t file_used = 0;
  std::size_t memory_used = 0;
  std::size_t pinned_used = 0;
  std::map<std::byte*, std::size_t> reservations;
  std::map<std::byte*, Mapping> mappings;
  std::map<cuda::Handle, std::shared_ptr<Physical>> handles;
  struct Pinned {
    std::size_t bytes = 0;
    std::shared_ptr<Shadow> shadow;
  };
  std::map<std::byte*, Pinned> pinned;
  std::map<void*, std::unique_ptr<SoftModule>> modules;
  std::map<void*, std::vector<Touch>> expected;  // by stream
  std::map<void*, std::unique_ptr<SoftStream>> streams;
  std::map<void*, std::shared_ptr<SoftEvent>> events;
  std::unique_ptr<SoftStream> default_stream;
  std::array<std::uint32_t, kStreamsMax> counts{};  // of work, by stream number, for ever
  Clock host;                                       // what the host knows to be over
  std::size_t contexts = 0;
  bool initialized = false;
  cuda::Handle next_handle = 1;
  cuda::Result broken = cuda::kSuccess;  // every call answers so
  std::vector<std::string> violations;
  std::vector<Prefetch> prefetches;
  std::uint64_t calls = 0;
  std::uint64_t fail_nth = 0;
  cuda::Result fail_with = cuda::kSuccess;
  std::string fail_function;
};

World& world();

// An entry point at work: holds the lock; result() is what it has to answer at once, if not success.
class Call {
 public:
  enum class Needs { kNothing, kInit, kContext };
  explicit Call(const char* function, Needs needs = Needs::kContext);
  cuda::Result result() const { return result_; }
  World* operator->() { return &world_; }
  World& operator*() { return world_; }

 private:
  World& world_;
  std::unique_lock<std::mutex> lock_;
  cuda::Result result_ = cuda::kSuccess;
};

// The contexts that are current in this thread, the last one really.
std::vector<cuda::Context>& current_contexts();
inline cuda::Context the_context() { return reinterpret_cast<cuda::Context>(0x100); }

}  // namespace ebb::soft
